"""A real run that is stopped, changed by name and resumed, in this process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.tui.fakes import rows_file
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.errors import InputError
from zoo.gym.files.lock import locked
from zoo.gym.jobs import Run, create_run, tail_events
from zoo.gym.jobs.actions import finish, park, resume
from zoo.gym.train.run_folder.env import stored_device
from zoo.gym.train.run_folder.settings import (
    change_settings,
    finish_at,
    recipe_of,
    store_settings,
    stored_settings,
)
from zoo.gym.train.schedule import learning_rate
from zoo.gym.train.session import run_session
from zoo.models import pico_folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that was stopped behind its second step of four."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    model = shutil.copytree(pico_folder(), tmp_path / "m1")
    config = TrainConfig(
        model_name_or_path=str(model), dataset=(str(rows_file(tmp_path)),), max_steps=4
    )
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    with raises("train.stopped"):
        run_session(config, run, leave_behind(run, 2))
    return run


def leave_behind(run: Run, step: int) -> Callable[[], str | None]:
    def leaving() -> str | None:
        events, _ = tail_events(run.events.path)
        return "stop" if any(event.get("step") == step for event in events) else None

    return leaving


@pytest.mark.slow
def test_a_resume_takes_the_steps_and_the_rate_that_were_named(run: Run) -> None:
    items = ["max_steps=3", "learning_rate=0.0625", "eval_steps=1"]
    change_settings(run.config_file, run.env_file, items, 2)
    offset = run.events.path.stat().st_size
    run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    events, _ = tail_events(run.events.path, offset)
    steps = [(e["step"], e["steps"], e["lr"]) for e in events if e["kind"] == "step"]
    rate = learning_rate(3, peak=0.0625, steps=3, warmup_steps=0, shape="cosine")
    assert steps == [(3, 3, rate)]
    plans = [e for e in tail_events(run.events.path)[0] if e["kind"] == "plan"]
    assert plans[0]["evaluation_rows"] == plans[1]["evaluation_rows"]
    assert [plan["device"] for plan in plans] == ["cpu", "cpu"]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a launch prepare the run without starting a worker."""

    def launch(run: Run, *, prepare: Callable[[], object], **_: object) -> None:
        prepare()

    monkeypatch.setattr("zoo.gym.jobs.actions.launch", launch)


@pytest.mark.slow
@pytest.mark.usefixtures("launched")
def test_a_run_that_is_finished_early_publishes_its_best_step(run: Run) -> None:
    began = stored_settings(run.config_file, run.env_file).model_copy(update={"warmup_steps": 3})
    store_settings(run.config_file, run.env_file, began)
    run.events.emit("end", state="interrupted", exit_code=5)
    finish(run)
    offset = run.events.path.stat().st_size
    found = run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    events = tail_events(run.events.path, offset)[0]
    assert "step" not in [event["kind"] for event in events]
    assert [event["steps"] for event in events if event["kind"] == "plan"] == [2]
    assert (run.result / "adapter_model.safetensors").is_file()
    assert found["metrics"]["steps"] == 2  # type: ignore[index]
    # the rates of its steps came from 4 steps with a warm-up of 3
    assert stored_settings(run.config_file, run.env_file) == began
    card = (run.result / "README.md").read_text()
    assert "max_steps: 4\n" in card
    assert "warmup_steps: 3\n" in card
    assert "The run was finished at step 2 of 4." in card
    assert recipe_of(run.env_file) == {"finished_at_step": 2}


@pytest.mark.usefixtures("launched")
@pytest.mark.slow
def test_a_resume_after_a_finish_that_failed_trains_to_the_last_step(run: Run) -> None:
    run.events.emit("end", state="interrupted", exit_code=5)
    finish(run)
    run.events.emit("end", state="failed", exit_code=1, message="disk full")
    resume(run)
    found = run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert found["metrics"]["steps"] == 4  # type: ignore[index]
    assert recipe_of(run.env_file) == {}


@pytest.mark.slow
def test_a_run_without_a_checkpoint_has_nothing_to_finish(run: Run) -> None:
    run.events.emit("end", state="interrupted", exit_code=5)
    shutil.rmtree(run.checkpoints)
    with raises("jobs.no_checkpoint", "has nothing to keep: expected a checkpoint, got none"):
        finish(run)


@pytest.mark.slow
def test_a_run_of_another_device_says_how_to_resume_here(run: Run) -> None:
    env = json.loads(run.env_file.read_text())
    run.env_file.write_text(json.dumps(env | {"device": "mps"}))
    with raises("train.no_device", "run uses mps, which this machine lacks") as told:
        stored_device(run.env_file)
    assert "zoo-gym runs resume r0001 --set device=" in str(told.value.hint)


@pytest.mark.slow
def test_a_run_does_not_resume_with_other_weights(run: Run, tmp_path: Path) -> None:
    weights = tmp_path / "m1" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with raises("train.changed_base", "that run r0001 began with, got other: weights\n"):
        run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [("m1/model.safetensors", "got other: weights"), ("my chats.jsonl", "changed since")],
)
def test_a_resume_looks_before_it_says_that_the_run_goes_on(
    run: Run, tmp_path: Path, name: str, told: str
) -> None:
    run.events.emit("end", state="interrupted", exit_code=5)
    events = run.events.path.read_bytes()
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n")
    with pytest.raises(InputError, match=told):
        resume(run)
    assert run.events.path.read_bytes() == events


@pytest.mark.slow
def test_a_resume_that_comes_second_changes_no_settings(run: Run) -> None:
    run.events.emit("end", state="interrupted", exit_code=5)
    before = [file.read_bytes() for file in (run.config_file, run.env_file)]
    with locked(run.lock_file), raises("jobs.has_worker"):
        resume(run, ["learning_rate=0.25"])
    assert [file.read_bytes() for file in (run.config_file, run.env_file)] == before


@pytest.mark.slow
def test_a_run_without_a_whole_checkpoint_or_its_split_does_not_start_over(run: Run) -> None:
    for manifest in run.checkpoints.glob("step-*/manifest.json"):
        manifest.write_text("")
    told = "expected an intact checkpoint, got only damaged ones: step-00000002"
    with raises("train.not_resumable", told):
        run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    run.events.emit("end", state="interrupted", exit_code=5)
    with raises("train.not_resumable", told):
        resume(run)
    shutil.rmtree(run.checkpoints)
    with raises("jobs.no_checkpoint", "expected the checkpoint of step 2, got none"):
        resume(run)
    (run.folder / "split.json").unlink()
    with raises("train.damaged_file", "the split that the run wrote at its start, got no file"):
        resume(run)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3])
def test_as_many_checkpoints_are_kept_as_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    config = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=(str(rows_file(tmp_path)),),
        max_steps=4,
        save_steps=1,
        save_total_limit=limit,
    )
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    run_session(config, run, lambda: None)
    kept = [folder.name for folder in sorted(run.checkpoints.glob("step-*"))]
    assert kept == [f"step-{step:08d}" for step in range(5 - limit, 5)]


@pytest.mark.slow
def test_checkpoints_of_the_model_alone_are_finished_and_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = (str(rows_file(tmp_path)),)
    config = TrainConfig(
        model_name_or_path="zen-pico", dataset=rows, max_steps=4, save_only_model=True
    )
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    with raises("train.stopped"):
        run_session(config, run, leave_behind(run, 2))
    *_, checkpoint = sorted(run.checkpoints.glob("step-*"))
    names = {file.name for file in checkpoint.iterdir()}
    assert names == {"manifest.json", "model-only.safetensors", "progress.json"}
    run.events.emit("end", state="interrupted", exit_code=5)
    for act in (resume, park):
        with pytest.raises(InputError, match="save_only_model") as told:
            act(run)
        assert "zoo-gym runs finish r0001" in str(told.value.hint)
    with raises("train.not_resumable", "got the model only: save_only_model is true"):
        run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    finish_at(run.env_file, 2)
    found = run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert found["metrics"]["best_step"] == 2  # type: ignore[index]
