"""Refusals of the real program and its detached worker: Ctrl-C, a full disk, bad input."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gym import broken
from tests.gym.conftest import check_refusal, contents, strays

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and FIFOs of POSIX")

PROGRAM = [sys.executable, "-m", "zoo.gym"]
TRAIN = ["train", "chat.jsonl", "--json", "--model"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own, and chats in the working folder."""
    broken.chat_rows(tmp_path / "chat.jsonl", 40)
    home = {"ZOO_GYM_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "hub")}
    return os.environ | home | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TERM": "xterm"}


def run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the program in the working folder of `env`."""
    folder, pipe = Path(env["ZOO_GYM_HOME"]).parent, subprocess.PIPE
    return subprocess.run(
        [*PROGRAM, *words], env=env, cwd=folder, stdout=pipe, stderr=pipe, text=True, check=False
    )


def refused(env: dict[str, str], *words: str, code: int) -> str:
    """Runs a command that must fail, checks all that holds then, and returns its message."""
    folder = Path(env["ZOO_GYM_HOME"]).parent
    before = contents(folder)
    done = run(env, *words)
    assert contents(folder) == before
    assert strays(folder) == []
    return check_refusal(done.returncode, done.stdout, done.stderr, code)


@pytest.mark.slow
def test_a_misspelt_key_is_told_by_the_program(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("model: zen-pico\ndataset: chat.jsonl\nlearning_rte: 1\n")
    message = refused(env, "train", "my.yaml", "--json", code=2)
    assert message == "my.yaml:3: learning_rte: no such setting. Did you mean 'learning_rate'?"


@pytest.mark.slow
def test_an_absent_model_is_told_by_the_program(env: dict[str, str]) -> None:
    assert "is not on this machine" in refused(env, *TRAIN, "zen-nano", code=4)


@pytest.mark.slow
def test_the_detached_worker_s_refusal_ends_the_command(
    env: dict[str, str], tmp_path: Path
) -> None:
    broken.put_nan(broken.pico(tmp_path / "model"))
    assert f"{broken.NORM}: value 3 is nan" in refused(env, *TRAIN, "./model", code=2)
    [log] = (tmp_path / "home").rglob("worker.log")
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_truncated_model_is_refused_before_a_run_exists(
    env: dict[str, str], tmp_path: Path
) -> None:
    broken.cut(broken.WEIGHTS)(broken.pico(tmp_path / "model"))
    assert "truncated file" in refused(env, *TRAIN, "./model", code=2)
    assert list((tmp_path / "home").rglob("worker.log")) == []


AT_A_TERMINAL = (
    "import fcntl, runpy, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "runpy.run_module('zoo.gym', run_name='__main__', alter_sys=True)"
)
"""Makes the terminal on stdin the process's own, so that a typed Ctrl-C reaches it."""


def press_ctrl_c(
    env: dict[str, str], folder: Path, words: list[str], *, after: bytes
) -> tuple[int, str, str]:
    """Types Ctrl-C at a terminal after some words; returns exit code, stdout and screen."""
    ours, theirs = os.openpty()
    argv = [sys.executable, "-c", AT_A_TERMINAL, *words]
    files: dict[str, Any] = {"stdin": theirs, "stderr": theirs, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=env, cwd=folder, start_new_session=True, **files) as run:
        os.close(theirs)
        screen = b""
        while after not in screen:
            screen += os.read(ours, 4096)
        os.write(ours, b"\x03")
        out, _ = run.communicate()
    try:
        while more := os.read(ours, 4096):
            screen += more
    except OSError:  # Linux's way to say that nobody is left at the other end
        pass
    os.close(ours)
    return run.returncode, out.decode(), screen.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_ctrl_c_before_a_run_exists_is_130(env: dict[str, str], tmp_path: Path) -> None:
    asking = {name: value for name, value in env.items() if name != "HF_HUB_OFFLINE"}
    words = [*TRAIN, "zen-nano"]
    code, out, screen = press_ctrl_c(asking, tmp_path, words, after=b"[y/N]")
    shown = screen.replace("^C", "\n")  # the terminal's echo stands behind the question
    assert check_refusal(code, out, shown, 130) == "stopped by Ctrl-C"
    assert not (tmp_path / "home" / "data").exists()


@pytest.mark.nightly
def test_ctrl_c_in_training_saves_and_the_run_goes_on_to_its_end(
    env: dict[str, str], tmp_path: Path
) -> None:
    before = contents(tmp_path)
    words = [*TRAIN, "zen-pico", "--max_steps", "150"]
    code, out, screen = press_ctrl_c(env, tmp_path, words, after=b"step 1/")
    message = check_refusal(code, out, screen, 5)
    assert message.startswith("run 'r0001' was stopped at step ")
    assert (contents(tmp_path), strays(tmp_path)) == (before, [])
    stopped = json.loads(run(env, "runs", "list", "--json").stdout)["runs"][0]
    assert (stopped["state"], 0 < stopped["step"] < 150) == ("stopped", True)
    done = run(env, "runs", "resume", "last", "--json")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, answer["state"], answer["metrics"]["steps"]) == (0, "done", 150)


ON_A_FULL_DISK = """
mount -t tmpfs -o size=16m none home || exit 77
head -c 15500000 /dev/zero > home/ballast
"$@" train chat.jsonl --model zen-pico --max_steps 20 --json > first.out 2> first.err
echo $? > first.code
find home > first.files
rm home/ballast
"$@" runs resume last --json > second.out
echo $? > second.code
"""
"""A disk of 16 MB, which holds a run, and all but half of one is taken."""


@pytest.mark.slow
def test_a_full_disk_stops_a_run_and_space_lets_it_go_on(
    env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    own = ["unshare", "--mount", "--map-root-user"]
    argv = [*own, "sh", "-c", ON_A_FULL_DISK, "sh", *PROGRAM]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no disk of our own can be made here")
    if subprocess.run(argv, env=env, cwd=tmp_path, check=False).returncode == 77:
        pytest.skip("no disk of our own can be mounted here")
    text = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    code = int(text["first.code"])
    message = check_refusal(code, text["first.out"], text["first.err"], 1)
    assert message.endswith(": no space left on device")
    assert not [name for name in text["first.files"].split() if name.endswith((".tmp", ".part"))]
    assert (text["second.code"], json.loads(text["second.out"])["state"]) == ("0\n", "done")
