"""What every refusal owes the user, checked in one place, and a worker in this process."""

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.cli import main
from zoo.gym.jobs import Run, run_folders, worker

Refused = Callable[..., str]
"""Runs a command that must fail with `code`, and returns its message."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, a private home, no network and nothing in any cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    return tmp_path


@pytest.fixture
def near_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `train` run its worker in this process: torch is loaded once for all tests."""

    def launch(run: Run) -> int:
        with run.worker_log.open("a") as log, redirect_stderr(log):
            return worker.main([str(run.folder)])

    monkeypatch.setattr(worker, "stop_on_signals", lambda _: None)
    monkeypatch.setattr("zoo.gym.cli.train.launch", launch)


@pytest.fixture
def refused(
    place: Path,
    near_worker: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Refused:
    """Runs a command with `--json` and checks all that holds for any refusal."""

    def run(*words: str, code: int, stdin: str = "hi\n") -> str:
        monkeypatch.setattr(sys, "stdin", StringIO(stdin))
        before = contents(place)
        got = main([*words, "--json"])
        out, err = capsys.readouterr()
        message = check_refusal(got, out, err, code)
        assert contents(place) == before
        assert strays(place) == []
        for run in run_folders():
            logged = run.worker_log.read_text() if run.worker_log.exists() else ""
            assert "Traceback" not in logged
        return message

    return run


def check_refusal(got: int, out: str, err: str, code: int) -> str:
    """Checks exit code, streams and house form of a refusal and returns its message."""
    assert "Traceback" not in out + err
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    error = answer["error"]
    assert (got, error["exit_code"], set(error)) == (
        code,
        code,
        {"code", "message", "hint", "exit_code"},
    )
    lines = error["message"].splitlines()
    told = [f"zoo-gym: error: {line}" for line in lines]
    told += [f"hint: {error['hint']}"] if error["hint"] else []
    assert err.splitlines()[-len(told) :] == told
    assert not any(line.removesuffix("...").endswith(".") or line[0].isupper() for line in lines)
    return str(error["message"])


def contents(place: Path) -> dict[str, bytes]:
    """Returns every file under a folder, but for the runs."""
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(f): f.read_bytes() for f in files if "home" not in f.relative_to(place).parts}


def strays(place: Path) -> list[Path]:
    """Returns what was left under a temporary name."""
    return [path for path in place.rglob("*") if path.suffix in {".tmp", ".part", ".old"}]
