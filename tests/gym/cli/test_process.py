"""The real program in a process of its own: exit codes, streams, broken pipes, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo.gym.cli import boundary

PROGRAM = [sys.executable, "-m", "zoo.gym"]
SHELL = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
"""Runs the words behind it without a standard error."""


READ = ["--help", "models", "runs list --json", "data inspect my.jsonl", "paths"]
"""What people send to `head -1`."""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = {"ZOO_GYM_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "hub")}
    return os.environ | home | {"HF_HUB_OFFLINE": "1"}


@pytest.mark.slow
def test_the_process_ends_with_the_exit_code(env: dict[str, str]) -> None:
    words = ["runs", "show", "last"]
    done = subprocess.run([*PROGRAM, *words], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("zoo-gym: error: no run 'last'")


@pytest.mark.slow
def test_an_unforeseen_error_is_one_sentence_and_a_file(
    env: dict[str, str], tmp_path: Path
) -> None:
    code = "import zoo.gym.cli.verbs as v; v.VERBS = 1; from zoo.gym.cli import main; main()"
    argv = [sys.executable, "-c", code, "paths", "--json"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("zoo-gym: error: unexpected TypeError: ")
    assert "Traceback" not in done.stderr
    assert "Traceback" in (tmp_path / "home" / "log" / "crash.txt").read_text()


@pytest.mark.slow
def test_our_warnings_are_sentences_and_others_keep_their_place(env: dict[str, str]) -> None:
    code = (
        "import warnings, zoo.gym.cli.boundary as b; from zoo.gym.errors import GymWarning\n"
        "b.run = lambda words: [warnings.warn(GymWarning('half is lost')), warnings.warn('old')]\n"
        "from zoo.gym.cli import main; main()"
    )
    argv = [sys.executable, "-c", code, "paths"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines() == ["warning: half is lost", "<string>:2: UserWarning: old"]
    deaf = subprocess.run([*SHELL, *argv], env=env, capture_output=True, check=False)
    assert (deaf.returncode, deaf.stdout) == (0, b"")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_stdout_on_a_full_disk_is_reported(env: dict[str, str]) -> None:
    argv = [*PROGRAM, "paths", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(argv, env=env, stdout=full, stderr=-1, text=True, check=False)
    told = "zoo-gym: error: cannot write 'standard output': no space left on device"
    hint = "hint: free some space on that disk"
    assert (done.returncode, done.stderr.splitlines()[-2:]) == (1, [told, hint])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGPIPE")
@pytest.mark.parametrize("words", READ)
def test_a_reader_that_leaves_is_no_error(env: dict[str, str], rows: Path, words: str) -> None:
    argv = [*PROGRAM, *words.split()]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            argv, env=env, cwd=rows.parent, stdout=gone, stderr=subprocess.PIPE, check=False
        )
    said = done.stderr.decode()
    assert (done.returncode, "Traceback" in said, "error" in said) == (1, False, False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing on Windows")
def test_ctrl_c_in_a_viewer_is_130(env: dict[str, str]) -> None:
    make = "from zoo.gym.jobs import create_run; import time; create_run('', {}); time.sleep(60)"
    maker = subprocess.Popen([sys.executable, "-c", make], env=env)
    folder = Path(env["ZOO_GYM_HOME"]) / "data" / "runs" / "r0001" / "events.jsonl"
    while not folder.exists():
        time.sleep(0.05)
    with subprocess.Popen(
        [*PROGRAM, "runs", "tail", "last"], env=env, stdout=-1, stderr=-1
    ) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        code = tail.wait()
    maker.kill()
    maker.wait()
    assert code == 130


def test_memory_that_runs_out_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted() -> None:
        raise MemoryError

    monkeypatch.setattr(boundary, "build_app", lambda: lambda _words: exhausted())
    assert boundary.run(["doctor"]) == 3
    assert capsys.readouterr().err == "zoo-gym: error: memory: an allocation was refused\n"
