"""Tracks are read back by TensorBoard's reader, and from W&B's file by its own records."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig
from zoo.gym.jobs import Run, create_run
from zoo.gym.jobs.tracking import commands_of, tracked
from zoo.gym.train.planning import trackers
from zoo.gym.train.planning.trackers import check_trackers, trackers_of

Points = list[tuple[int, float]]


def settings(report_to: object) -> TrainConfig:
    return TrainConfig(
        model_name_or_path="zen-pico", dataset=["secret/rows.jsonl"], report_to=report_to
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "my home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    return create_run("model_name_or_path: zen-pico\ndataset: [a.jsonl]\n", {})


def emit(run: Run, *losses: float, first: int = 1) -> None:
    for number, loss in enumerate(losses, first):
        run.events.emit("step", step=number, steps=9, loss=loss, lr=0.5)


def in_tensorboard(run: Run) -> dict[str, Points]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader: Any = EventAccumulator(str(run.folder / "tensorboard"))
    reader.Reload()
    names = reader.Tags()["scalars"]
    return {name: [(each.step, each.value) for each in reader.Scalars(name)] for name in names}


def records(path: Path) -> Iterator[bytes]:
    """Yields the records of a file in LevelDB's log format, after a header of 7 bytes."""
    content, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        record += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield record
            record = b""


def in_wandb(run: Run) -> dict[str, Points]:
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    (path,) = (run.folder / "wandb").glob("wandb/offline-run-*/run-*.wandb")
    points: dict[str, Points] = {}
    for content in records(path):
        record: Any = Record()
        record.ParseFromString(content)
        items = {
            item.key or ".".join(item.nested_key): float(item.value_json)
            for item in record.history.item
            if not item.key.startswith("_")
        }
        for name, value in items.items():
            if "/" in name:
                points.setdefault(name, []).append((int(items["step"]), value))
    return points


READERS = {"tensorboard": in_tensorboard, "wandb": in_wandb}


@pytest.mark.parametrize("name", READERS)
def test_every_figure_of_every_event_arrives(name: str, run: Run) -> None:
    with tracked(run, settings(name)):
        run.events.emit("eval", step=0, loss=4.0, tokens=3)
        emit(run, 3.0, 2.0, 1.0)
        run.events.emit("eval", step=3, loss=0.5, metrics={"accuracy": 0.75}, tokens=3)
    assert READERS[name](run) == {
        "train/loss": [(1, 3.0), (2, 2.0), (3, 1.0)],
        "train/learning_rate": [(1, 0.5), (2, 0.5), (3, 0.5)],
        "eval/loss": [(0, 4.0), (3, 0.5)],
        "eval/accuracy": [(3, 0.75)],
    }


@pytest.mark.parametrize("name", READERS)
def test_figures_of_rollouts_have_the_names_of_trl(name: str, run: Run) -> None:
    with tracked(run, settings(name)):
        for step in (1, 2):  # the first opens the track, the second is added to it
            metrics = {"reward": 0.5, "rewards/maths": 1.0, "equal_groups": 0.25}
            metrics |= {"completion_length": 9.0, "truncated": 0.125, "kl": 0.5, "clip_low": 0.75}
            run.events.emit("step", step=step, loss=1.0, tokens=7, metrics=metrics)
    assert {name: values[-1][1] for name, values in READERS[name](run).items()} == {
        "train/loss": 1.0,
        "train/num_tokens": 7,
        "train/reward": 0.5,
        "train/rewards/maths/mean": 1.0,
        "train/frac_reward_zero_std": 0.25,
        "train/completions/mean_length": 9.0,
        "train/completions/clipped_ratio": 0.125,
        "train/kl": 0.5,
        "train/clip_ratio/low_mean": 0.75,
    }
    assert {len(values) for values in READERS[name](run).values()} == {2}


@pytest.mark.parametrize("name", READERS)
def test_a_resumed_run_continues_its_track(name: str, run: Run) -> None:
    with tracked(run, settings(name)):
        emit(run, 4.0, 3.0, 2.0)
    emit(run, 9.0, first=4)  # its tracker was killed before this was written
    with tracked(run, settings(name)):
        emit(run, 2.5, 1.5, first=3)
    assert READERS[name](run)["train/loss"] == [(1, 4.0), (2, 3.0), (3, 2.5), (4, 1.5)]


def test_both_are_written_at_once(run: Run) -> None:
    with tracked(run, settings(["wandb", "tensorboard"])):
        emit(run, 4.0)
    assert in_wandb(run) == in_tensorboard(run)
    words = [shlex.split(command) for command in commands_of(run).values()]
    assert [each[0] for each in words] == ["tensorboard", "wandb"]
    assert [Path(each[-1]).is_dir() for each in words] == [True, True]


def test_wandb_has_no_path_and_no_name_of_the_machine(run: Run, tmp_path: Path) -> None:
    import socket

    with tracked(run, settings("wandb")):
        emit(run, 4.0)
    (path,) = (run.folder / "wandb").glob("wandb/offline-run-*/run-*.wandb")
    content = path.read_bytes()
    private = (str(tmp_path), "secret/rows", f'"{socket.gethostname()}"')
    assert not [text for text in private if text.encode() in content]
    assert b"lora_rank" in content


def test_wandb_is_offline_whatever_the_environment_says(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    with tracked(run, settings("wandb")):
        emit(run, 4.0)
    assert in_wandb(run)["train/loss"] == [(1, 4.0)]
    assert "WANDB_MODE=online has no effect" in run.events.path.read_text()
    assert os.environ["WANDB_MODE"] == "online"


def test_a_tracker_that_fails_is_a_warning_and_not_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("full")

    monkeypatch.setattr("zoo.gym.jobs.tracking._TensorBoard.add", full)
    with tracked(run, settings("tensorboard")):
        emit(run, 4.0, 3.0)
    log = run.events.path.read_text()
    assert log.count("report_to: tensorboard gets no figures from here on: full") == 1
    assert '"step": 2' in log


def test_a_tracker_that_fails_at_the_end_is_a_warning_and_the_others_are_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("full")

    monkeypatch.setattr("zoo.gym.jobs.tracking._TensorBoard.close", full)
    with tracked(run, settings(["tensorboard", "wandb"])):
        emit(run, 4.0)
    assert "report_to: tensorboard may lack the last figures: full" in run.events.path.read_text()
    assert in_wandb(run)["train/loss"] == [(1, 4.0)]


def test_a_tracker_leaves_other_readers_of_events_alone(run: Run) -> None:
    seen: list[str] = []
    run.events.on_event = lambda event: seen.append(event["kind"])
    with tracked(run, settings("tensorboard")):
        emit(run, 4.0)
    emit(run, 3.0)
    assert seen == ["step", "step"]


def test_wandb_leaves_the_end_of_the_process_alone(run: Run) -> None:
    with tracked(run, settings("wandb")):
        emit(run, 4.0)
    assert [
        each.__module__ for each in (sys.exit, sys.excepthook) if "wandb" in each.__module__
    ] == []


def test_without_a_tracker_nothing_is_written(run: Run) -> None:
    with tracked(run, settings("none")):
        emit(run, 4.0)
    assert commands_of(run) == {}
    assert not (run.folder / "tensorboard").exists()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("none", ()),
        ([], ()),
        (["none"], ()),
        ("wandb", ("wandb",)),
        ("wandb, tensorboard", ("tensorboard", "wandb")),
        (["tensorboard"], ("tensorboard",)),
    ],
)
def test_names_are_read_as_llama_factory_writes_them(given: object, names: tuple[str, ...]) -> None:
    assert trackers_of(settings(given)) == names


@pytest.mark.parametrize("given", ["all", ["none", "wandb"], "trackio", 5])
def test_other_names_are_refused(given: object) -> None:
    with raises("config.invalid", "report_to: expected"):
        settings(given)


def missing(_: str) -> None:
    """Finds no package."""


def test_a_tracker_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", missing)
    check_trackers(settings("none"))
    with raises("train.missing_tracker", "report_to: wandb needs the package") as caught:
        check_trackers(settings("wandb"))
    assert "track" in str(caught.value.hint) or "wandb" in str(caught.value.hint)


def test_a_tracker_that_is_switched_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    check_trackers(settings("tensorboard"))
    with raises("train.tracker_disabled", "has no effect with WANDB_MODE=disabled"):
        check_trackers(settings("wandb"))
