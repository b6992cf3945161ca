"""A run that ended, started again as a new one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gym.tui import fakes
from zoo.gym.cli import main
from zoo.gym.jobs import Run, create_run, list_runs
from zoo.gym.train.planning.smaller import smaller_steps


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}, (1, 16, True)),
        ({"per_device_train_batch_size": 8}, (1, 8, True)),
        ({}, (1, None, True)),
        ({"gradient_accumulation_steps": 4}, (None, None, True)),
        ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}, (None, None, True)),
        ({"per_device_train_batch_size": 1, "gradient_checkpointing": True}, (None, None, None)),
    ],
)
def test_smaller_steps_have_the_same_rows(
    settings: dict[str, object], changes: tuple[int | None, int | None, bool | None]
) -> None:
    keys = ("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing")
    found = smaller_steps(settings)
    assert tuple(found.get(key) for key in keys) == changes


def failed(tmp_path: Path, code: str) -> Run:
    rows = fakes.rows_file(tmp_path)
    settings = f"model_name_or_path: zen-pico\ndataset: [{json.dumps(str(rows))}]\nmax_steps: 1\n"
    run = create_run(settings, {})
    choices = [{"key": "per_device_train_batch_size", "value": 4, "reason": ""}]
    run.events.emit("plan", steps=1, choices=choices)
    fakes.end(run, "failed", message="the run does not fit in memory", code=code)
    return run


@pytest.mark.slow
def test_a_run_that_did_not_fit_learns_the_same_in_smaller_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = failed(tmp_path, "jobs.out_of_memory")
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    assert main(["runs", "retry", run.id, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    new = Run(run.folder.parent / answer["run"])
    env = json.loads(new.env_file.read_text())
    assert env["retry_of"] == run.id
    chosen = env["settings"]
    assert chosen["per_device_train_batch_size"] == 1
    assert chosen["gradient_accumulation_steps"] == 4
    assert chosen["gradient_checkpointing"] is True
    assert chosen["max_steps"] == 1
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.slow
def test_with_settings_a_run_chooses_the_others_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = failed(tmp_path, "train.nan_loss")
    run.config_file.write_text(f"{run.config_file.read_text()}learning_rate: 0.5\n")
    env = json.loads(run.env_file.read_text())
    run.env_file.write_text(json.dumps(env | {"origins": {"learning_rate": "default"}}))
    assert main(["runs", "retry", run.id, "max_steps=2", "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    settings = json.loads((run.folder.parent / answer["run"] / "env.json").read_text())["settings"]
    assert settings["max_steps"] == 2
    assert settings["learning_rate"] != 0.5


def test_other_data_is_no_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = failed(tmp_path, "jobs.out_of_memory")
    for word in (str(fakes.rows_file(tmp_path)), "more.yaml", "=3"):
        assert main(["runs", "retry", run.id, word]) == 2
        assert "expected a setting KEY=VALUE" in capsys.readouterr().err
    assert len(list_runs()) == 1


@pytest.mark.parametrize("state", ["other", "live"])
def test_a_run_without_a_change_is_not_started(
    tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fakes.trained(2) if state == "live" else failed(tmp_path, "train.nan_loss")
    assert main(["runs", "retry", run.id]) == 2
    assert "expected" in capsys.readouterr().err
    assert len(list_runs()) == 1
