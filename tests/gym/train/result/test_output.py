"""`output_dir`: what comes to its place while a run waits, works or rests is not lost."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.tui.fakes import rows_file
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.jobs import Run, check_unclaimed, create_run, resume, tail_events
from zoo.gym.train.result.output import check_chosen_output, check_output
from zoo.gym.train.session import run_session


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainConfig:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = (str(rows_file(tmp_path)),)
    out = str(tmp_path / "out")
    return TrainConfig(model_name_or_path="zen-pico", dataset=rows, max_steps=1, output_dir=out)


@pytest.fixture
def run(config: TrainConfig) -> Run:
    return create_run(dump_config(config), {"settings": config.model_dump(mode="json")})


def put_file(out: Path) -> None:
    (out / "README.md").write_text("mine")


def put_link(out: Path) -> None:
    precious = out.with_name("precious")
    precious.mkdir()
    put_file(precious)
    out.rmdir()
    out.symlink_to(precious)


TAKE = [put_file, put_link]


@pytest.mark.slow
@pytest.mark.parametrize("take", TAKE)
def test_a_place_that_is_taken_while_a_run_works_keeps_what_it_has(
    config: TrainConfig, run: Run, tmp_path: Path, take: Callable[[Path], None]
) -> None:
    out = tmp_path / "out"

    def leaving() -> None:
        events, _ = tail_events(run.events.path)
        if any(event["kind"] == "step" for event in events):
            take(out)

    found = run_session(config, run, leaving)
    assert found["model"] == str(run.result)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("README.md", "mine")]
    warnings = [event["message"] for event in tail_events(run.events.path)[0] if "message" in event]
    assert f"the model is only in '{run.result}' (output '{out}': expected" in warnings[-1]


@pytest.mark.slow
def test_a_place_that_is_taken_while_a_run_waits_ends_it_before_the_training(
    config: TrainConfig, run: Run, tmp_path: Path
) -> None:
    @contextmanager
    def turn(_: str) -> Generator[None]:
        put_file(tmp_path / "out")
        yield

    with raises("train.bad_output", "output_dir: expected no folder or an empty one"):
        run_session(config, run, lambda: None, turn)
    assert not run.checkpoints.exists()


@pytest.mark.slow
def test_a_run_that_was_killed_behind_its_copy_writes_it_again(
    config: TrainConfig, run: Run, tmp_path: Path
) -> None:
    run_session(config, run, lambda: None)
    (tmp_path / "out" / "README.md").unlink()  # a second kill, while the old copy was removed
    assert run_session(config, run, lambda: None)["model"] == str(tmp_path / "out")
    copies = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert copies == {path.name: path.read_bytes() for path in run.result.iterdir()}


@pytest.mark.parametrize("take", TAKE)
def test_a_place_that_was_taken_while_a_run_rested_is_told_before_it_resumes(
    config: TrainConfig, run: Run, tmp_path: Path, take: Callable[[Path], None]
) -> None:
    config = config.model_copy(update={"max_steps": 2})
    with raises("data.stopped"):
        run_session(config, run, lambda: "stop")
    run.events.emit("end", state="interrupted", exit_code=5)
    take(tmp_path / "out")
    for go_on in (lambda: resume(run), lambda: run_session(config, run, lambda: None)):
        with raises("train.bad_output", "expected") as caught:
            go_on()
        assert caught.value.hint == "move it away, then: zoo-gym runs resume r0001"


def test_a_link_in_the_place_of_the_result_is_told_before_the_training(
    config: TrainConfig, run: Run, tmp_path: Path
) -> None:
    run.result.symlink_to(tmp_path)
    with raises("files.not_a_folder", "result': expected a folder or nothing, got a symbolic"):
        run_session(config, run, lambda: None)
    assert not run.checkpoints.exists()


def test_an_output_that_a_live_run_will_write_is_refused(run: Run, tmp_path: Path) -> None:
    with raises("jobs.output_taken", "which run 'r0001' will write"):
        check_unclaimed(tmp_path / "home" / ".." / "out")
    check_unclaimed(tmp_path / "other")
    run.events.emit("end", state="interrupted", exit_code=5)
    check_unclaimed(tmp_path / "out")


def test_a_mount_point_which_nothing_can_be_renamed_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda _: True)
    with raises("train.bad_output", "got a mount point") as caught:
        check_output(tmp_path / "out")
    assert caught.value.hint == f"choose a folder in it: '{tmp_path / 'out' / 'result'}'"


@pytest.mark.slow
def test_an_overwritten_place_gets_the_new_result_and_keeps_other_files(
    config: TrainConfig, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_session(config, run, lambda: None)
    put_file(out)
    (out / "notes.txt").write_text("mine")
    (out / "model.safetensors").write_text("of an earlier full training")
    config = config.model_copy(update={"overwrite_output_dir": True})
    assert run_session(config, run, lambda: None)["model"] == str(out)
    copies = {path.name: path.read_bytes() for path in out.iterdir()}
    result = {path.name: path.read_bytes() for path in run.result.iterdir()}
    assert copies == result | {"notes.txt": b"mine"}


@pytest.mark.slow
def test_a_file_that_only_has_the_name_of_our_record_makes_nothing_ours(
    config: TrainConfig, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "zoo-gym.json").write_text('{"mine": 1}')
    (out / "adapter_model.bin").write_text("mine")
    run_session(config.model_copy(update={"overwrite_output_dir": True}), run, lambda: None)
    assert (out / "adapter_model.bin").read_text() == "mine"


def test_a_whole_model_of_somebody_else_is_never_overwritten(
    config: TrainConfig, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.safetensors").write_text("precious")
    given = config.model_copy(update={"overwrite_output_dir": True})
    with raises("train.bad_output", "expected no model or one that a run wrote"):
        check_chosen_output(given)
    itself = given.model_copy(update={"model_name_or_path": str(out)})
    with raises("train.bad_output", "expected another folder than the base model's"):
        check_chosen_output(itself)
