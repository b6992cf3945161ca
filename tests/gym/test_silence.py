"""Nothing is asked of any network on the whole path: train, chat, delta, app; workers too."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gym.guard import Guard
from tests.gym.tui import fakes
from tests.gym.tui.test_terminal import Terminal, wait
from zoo.gym.jobs import Run, read_status

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")]

PROGRAM = [sys.executable, "-m", "zoo.gym"]

PATH = """
set -e
cat /proc/net/snmp > before || true
"$@" train rows.jsonl --model zen-pico max_steps=3 --json > train.json
echo 'spell hi: ' | "$@" chat --run last --max_new_tokens 4 --json > chat.json
"$@" delta create last --out my.safetensors --json > create.json
"$@" delta check my.safetensors --json > check.json
"$@" delta apply my.safetensors --out rebuilt --json > apply.json
echo 'spell hi: ' | "$@" chat --model ./rebuilt --max_new_tokens 4 --json > again.json
"$@" doctor --json > doctor.json
cat /proc/net/snmp > after || true
"""
"""The first path, and the kernel's counters of packets around it."""


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    shutil.move(fakes.rows_file(tmp_path), tmp_path / "rows.jsonl")
    return Guard(tmp_path)


def no_network() -> list[str]:
    """Returns how to start a command without any network, or nothing where that is not allowed."""
    alone = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        return []
    return alone


def run(guard: Guard, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = guard.env(folder / "home")
    return subprocess.run(argv, env=env, cwd=folder, check=False, capture_output=True, text=True)


def packets(folder: Path) -> list[str]:
    """Returns the lines of the kernel's counters that differ."""
    before, after = ((folder / name).read_text().splitlines() for name in ("before", "after"))
    return [line for line in after if line not in before]


def test_the_commands_and_the_worker_ask_nobody(guard: Guard, tmp_path: Path) -> None:
    alone = no_network()
    done = run(guard, tmp_path, *alone, "sh", "-c", PATH, "sh", *PROGRAM)
    assert (done.returncode, guard.attempts()) == (0, []), done.stderr
    assert not alone or packets(tmp_path) == []  # native code knows no audit hooks
    assert json.loads((tmp_path / "create.json").read_text())["form"] == "lowrank"
    assert json.loads((tmp_path / "check.json").read_text())["passed"]
    ended = guard.ended()
    for words in ("jobs.worker", "chat --run", "create", "check", "apply", "chat --model"):
        assert any(words in argv for argv in ended), words
    heavy = [found for found in ended.values() if found["torch"]]
    assert (len(heavy) >= 4, {found["environment"] for found in heavy}) == (True, {"1"})
    assert {found["offline"] for found in ended.values()} <= {None, True}


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_app_and_what_it_starts_ask_nobody(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in guard.env(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    terminal = Terminal(tmp_path)
    try:
        terminal.open_app()
        terminal.shows("Train on my examples")
        terminal.keys("Enter")
        terminal.shows("1 Examples")
        terminal.tmux("send-keys", "-l", str(tmp_path / "rows.jsonl"))
        terminal.keys("Enter")
        terminal.shows("40 examples", "q Quit")
        terminal.keys("C-s")
        terminal.shows("r0001", "Training, step")
        run = Run(tmp_path / "home" / "data" / "runs" / "r0001")
        terminal.keys("x")
        terminal.shows("Stop run r0001?")
        terminal.keys("y")
        terminal.shows("Stopped at step")
        terminal.keys("q")
        wait(lambda: any(argv.endswith("zoo.gym") for argv in guard.ended()))
    finally:
        terminal.kill()
    assert guard.attempts() == []
    assert read_status(run).state == "interrupted"
    for words in ("data inspect", "--detach", "jobs.worker"):
        assert any(words in argv for argv in guard.ended()), words


CONTROLS = {
    "socket.connect": "import socket; socket.socket().connect(('192.0.2.1', 9))",
    "socket.getaddrinfo": "import socket; socket.getaddrinfo('huggingface.co', 443)",
    "kernels": "import kernels; kernels.get_kernel('org/name')",
}


@pytest.mark.parametrize("attempt", CONTROLS)
def test_the_guard_sees_what_it_is_there_for(guard: Guard, tmp_path: Path, attempt: str) -> None:
    done = run(guard, tmp_path, sys.executable, "-P", "-c", CONTROLS[attempt])
    assert done.returncode == 1
    assert [found["attempt"] for found in guard.attempts()] == [attempt]


def test_the_kernel_counts_what_the_guard_cannot_see(guard: Guard, tmp_path: Path) -> None:
    alone = no_network()
    if not alone:
        pytest.skip("no network of our own can be made here")
    code = "import socket; socket.create_connection(('192.0.2.1', 9))"
    script = f'cat /proc/net/snmp > before; "{sys.executable}" -I -c "{code}"; '
    run(guard, tmp_path, *alone, "sh", "-c", script + "cat /proc/net/snmp > after")
    assert guard.attempts() == []
    assert packets(tmp_path) != []
