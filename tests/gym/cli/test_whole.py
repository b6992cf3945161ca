"""The real thing: training, Ctrl-C, resuming, a delta and a chat, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = [sys.executable, "-m", "zoo.gym"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing on Windows"),
]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    # no two rows are equal: equal ones are held out together
    rows = [{"prompt": f"say {number}", "completion": f"{number}"} for number in range(60)]
    (tmp_path / "my.jsonl").write_text("\n".join(map(json.dumps, rows)))
    home = {"ZOO_GYM_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "hub")}
    return os.environ | home | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def answer(tmp_path: Path, env: dict[str, str], *words: str, stdin: str = "") -> dict[str, Any]:
    """Runs a command that must succeed and returns its JSON."""
    argv = [*PROGRAM, *words, "--json"]
    pipes: dict[str, Any] = {"input": stdin, "capture_output": True, "text": True}
    done = subprocess.run(argv, env=env, cwd=tmp_path, check=True, **pipes)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def interrupt(tmp_path: Path, env: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Presses Ctrl-C after the first step of a training run."""
    argv = [*PROGRAM, "train", "my.jsonl", "--model", "zen-pico", "--max_steps", "2000", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as run:
        assert run.stderr is not None
        next(line for line in run.stderr if line.startswith("step "))
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate()
    return run.returncode, json.loads(out.splitlines()[-1])


def test_ctrl_c_saves_and_the_run_can_be_resumed(tmp_path: Path, env: dict[str, str]) -> None:
    code, found = interrupt(tmp_path, env)
    assert (code, found["state"], found["error"]["exit_code"]) == (5, "stopped", 5)
    assert answer(tmp_path, env, "runs", "resume", "last", "--detach")["state"] == "running"
    stopped = answer(tmp_path, env, "runs", "stop", "last")
    assert stopped["state"] == "stopped"
    assert stopped["step"] > 0


def test_a_run_becomes_a_delta_that_talks(tmp_path: Path, env: dict[str, str]) -> None:
    run = answer(tmp_path, env, "train", "my.jsonl", "--model", "zen-pico", "--max_steps", "20")
    made = answer(tmp_path, env, "delta", "create", run["run"])
    assert (made["form"], made["quality"]["rows"]) == ("lowrank", 6)  # a tenth of 60 rows
    chat = answer(tmp_path, env, "chat", "--delta", made["file"], stdin="say one\n")
    assert [turn["prompt"] for turn in chat["turns"]] == ["say one"]
