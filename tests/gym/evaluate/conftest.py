"""A place for the command, and a run of zen-pico that learned to name the first letter."""

import json
import shutil
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.gym.cli.conftest import Outcome
from zoo.gym.cli import main
from zoo.gym.jobs import worker
from zoo.gym.jobs.run import Run

Call = Callable[..., Outcome]


@pytest.fixture
def call(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in an empty folder, with no network and nothing in any cache."""

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "stdin", StringIO(""))
        code = main(words)
        return Outcome(code, *capsys.readouterr())

    return run


def write_rows(path: Path, rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def first_letters(count: int) -> list[dict[str, str]]:
    """Rows that a tiny model learns in a few steps."""
    draw = Random(0)
    words = ["".join(draw.choice("abcde") for _ in range(3)) for _ in range(count)]
    return [{"prompt": f"first letter of {w}:", "completion": w[0]} for w in words]


@pytest.fixture(scope="session")
def home_with_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows and a home in which `r0001` learned them."""
    folder = tmp_path_factory.mktemp("evaluated")
    rows = write_rows(folder / "my.jsonl", first_letters(60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_GYM_HOME", str(folder / "home"))
        patch.setattr(worker, "stop_on_signals", lambda _: None)
        patch.setattr("zoo.gym.cli.train.launch", lambda run: worker.main([str(run.folder)]))
        settings = ("max_steps=40", "learning_rate=0.01", "val_size=0.2")
        assert main(["train", str(rows), "--model", "zen-pico", *settings]) == 0
    return folder


@pytest.fixture
def trained(home_with_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run, in a copy of its home."""
    shutil.copytree(home_with_run / "home", place / "home")
    return Run(place / "home/data/runs/r0001")
