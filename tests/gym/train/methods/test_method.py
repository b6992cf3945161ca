"""A method is one file and one line of a table; the loop, resume, CLI and app follow."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.train.methods import toy
from zoo.gym import RunResult, run_training
from zoo.gym.cli import main
from zoo.gym.config import TrainConfig, dump_config, load_config, stages
from zoo.gym.config.describe import describe_settings
from zoo.gym.humanize import figure
from zoo.gym.jobs import tail_events
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.jobs.worker import main as work
from zoo.gym.tui.runs.history import History
from zoo.gym.tui.runs.text import meters, watched_metrics

SETTINGS: dict[str, Any] = {
    "model_name_or_path": "zen-pico",
    "stage": "toy",
    "max_steps": 6,
    "save_steps": 2,
    "eval_steps": 3,
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "date": "2026-01-01",
}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(stages.METHODS, *next(iter(toy.STAGE.items())))
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {"prompt": f"count {n}", "chosen": f"{n} {n + 1}", "rejected": f"no {n}"} for n in range(20)
    ]
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def config(pairs: Path, **settings: Any) -> TrainConfig:
    return TrainConfig.model_validate({"dataset": str(pairs), **SETTINGS, **settings})


@pytest.fixture(scope="module")
def whole(pairs: Path) -> RunResult:
    """A run that nothing interrupted."""
    return run_training(config(pairs))


@pytest.fixture(scope="module")
def once_killed(pairs: Path) -> Run:
    settings = config(pairs)
    run = create_run(dump_config(settings), {"settings": settings.model_dump(mode="json")})
    assert worker(run, TOY_DIES_AT="6") == -9
    return run


@pytest.fixture
def killed(once_killed: Run) -> Run:
    """A run that was killed in its last step, two steps behind its newest checkpoint."""
    runs = once_killed.folder.parent
    copied = runs / f"r{9000 + len(list(runs.iterdir()))}"
    return Run(shutil.copytree(once_killed.folder, copied))


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()


def worker(run: Run, **env: str) -> int:
    """Works on a run in a process that knows the method; returns its exit code."""
    command = [sys.executable, "-m", "tests.gym.train.methods.toy", str(run.folder)]
    return subprocess.run(command, env=os.environ | env, check=False).returncode


@pytest.mark.slow
def test_it_trains_and_reports_its_metrics(whole: RunResult) -> None:
    steps, evaluations = events(whole.folder, "step"), events(whole.folder, "eval")
    assert steps[0]["metrics"].keys() == {"accuracy", "margin"}
    # before the first step policy and reference are one: no margin, and log 2 a pair
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert evaluations[0]["metrics"] == {"accuracy": 0, "margin": pytest.approx(0, abs=1e-5)}
    assert evaluations[-1]["metrics"]["margin"] > 0.05
    assert [event["best"] for event in evaluations] == [False, True, True]
    assert whole.metrics["best_margin"] > whole.metrics["base_margin"]
    assert whole.metrics["best_step"] == 6


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(whole: RunResult, killed: Run) -> None:
    assert [event["step"] for event in events(killed.folder, "step")] == [1, 2, 3, 4, 5]
    assert worker(killed) == 0
    assert [event["step"] for event in events(killed.folder, "step")][-2:] == [5, 6]
    assert digest(killed.result) == digest(whole.model)


@pytest.mark.slow
def test_what_a_method_remembers_is_part_of_the_resume(
    whole: RunResult, killed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy.Toy, "load", lambda *_: None)
    assert work([str(killed.folder)]) == 0
    assert digest(killed.result) != digest(whole.model)


@pytest.mark.slow
def test_its_metrics_are_printed_by_runs_tail(
    whole: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "tail", whole.run]) == 0
    text = capsys.readouterr().out
    last = events(whole.folder, "step")[-1]["metrics"]
    assert f"margin {figure(last['margin'])}" in text


def test_its_metrics_are_shown_by_the_app(whole: RunResult) -> None:
    history = History()
    history.take([*tail_events(whole.folder / "events.jsonl")[0]])
    shown = " ".join([*watched_metrics(history), *(" ".join(meter) for meter in meters(history))])
    last = events(whole.folder, "eval")[-1]["metrics"]
    assert "accuracy" in shown
    assert f"held-out margin {figure(last['margin'])}" in shown


def test_pairs_are_counted_as_pairs(whole: RunResult) -> None:
    (plan,) = events(whole.folder, "plan")
    assert (plan["rows"], plan["held_out_rows"], plan["rows_per_step"]) == (18, 2, 4)
    assert plan["watch"] == ["accuracy", "margin"]


def test_rows_of_another_kind_are_refused_before_the_start(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "completion": "b"}\n')
    with raises("data.no_usable_row", "expected two answers to compare"):
        run_training(config(rows))


def test_a_setting_of_its_own_belongs_to_it_alone(pairs: Path) -> None:
    given = {"model": "m", "data": str(pairs), "toy_beta": 0.5}
    loaded = load_config([], [], {**given, "stage": "toy"}).config
    assert isinstance(loaded, toy.ToyConfig)
    assert loaded.toy_beta == 0.5
    with raises("config.invalid", "has no effect with stage sft: expected stage toy"):
        load_config([], [], given)
    described = {item.key: item.text for item in describe_settings()}
    assert described["toy_beta"].endswith("(stage toy)")


@pytest.mark.slow
def test_a_setting_of_its_own_changes_the_result(whole: RunResult, pairs: Path) -> None:
    assert digest(run_training(config(pairs, toy_beta=0.5)).model) != digest(whole.model)
