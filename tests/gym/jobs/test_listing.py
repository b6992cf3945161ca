import os
import shutil
from pathlib import Path

import pytest
import yaml

from zoo.gym.jobs import listing
from zoo.gym.jobs.events import EventReader
from zoo.gym.jobs.identity import write_identity
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.processes import Identity
from zoo.gym.store import RunIndex


def test_a_list_names_state_steps_process_and_model(run: Run) -> None:
    run.events.emit("plan", steps=9)
    run.events.emit("step", step=4, steps=9)
    (row,) = list_runs()
    told = row.as_json()
    assert told.pop("created") is not None
    assert told.pop("updated") is not None
    assert told == {
        "id": "r0001",
        "state": "queued",
        "step": 4,
        "steps": 9,
        "pid": os.getpid(),
        "model": "zen-pico",
        "folder": str(run.folder),
        "fault": None,
        "request": None,
        "saved": 0,
        "stage": "sft",
        "decides": None,
        "best": None,
    }


@pytest.mark.parametrize(
    ("decides", "found"),
    [("loss", {"loss": 1.5, "metrics": {"reward": 9.0}}), ("reward", {"metrics": {"reward": 1.5}})],
)
def test_a_list_has_the_method_and_the_best_value_of_what_decides(
    home: Path, decides: str, found: dict[str, object]
) -> None:
    run = create_run("model: zen-pico\nstage: grpo\n", {})
    run.events.emit("plan", steps=9, decides=decides)
    list_runs()
    run.events.emit("eval", step=0, loss=7.0, metrics={"reward": 7.0}, best=False)
    run.events.emit("eval", step=2, **found, best=True)
    run.events.emit("eval", step=4, loss=8.0, metrics={"reward": 8.0}, best=False)
    for row in list_runs() + list_runs():
        assert (row.stage, row.decides, row.best) == ("grpo", decides, 1.5)


def test_the_best_of_steps_that_a_kill_lost_is_not_listed(run: Run) -> None:
    run.events.emit("plan", steps=9, decides="loss")
    run.events.emit("eval", step=2, loss=0.75, best=True)
    run.events.emit("checkpoint", step=2)
    run.events.emit("eval", step=4, loss=0.5, best=True)
    assert list_runs()[0].best == 0.5
    (run.checkpoints / "step-00000002").mkdir(parents=True)
    write_identity(run.identity_file, Identity(2**22 + 1, 1.0))
    assert [row.best for row in list_runs() + list_runs()] == [0.75, 0.75]
    run.events.emit("end", state="done", exit_code=0, metrics={"best_loss": -0.25})
    assert list_runs()[0].best == -0.25
    assert list_runs()[0].best == -0.25


def test_the_newest_run_comes_first(run: Run) -> None:
    create_run("model: zen-nano\n", {})
    assert [(row.id, row.model) for row in list_runs()] == [
        ("r0002", "zen-nano"),
        ("r0001", "zen-pico"),
    ]


def test_a_dead_run_is_listed_as_interrupted_without_a_process(run: Run) -> None:
    write_identity(run.identity_file, Identity(2**22 + 1, 1.0))
    (row,) = list_runs()
    assert (row.state, row.pid) == ("interrupted", None)


def test_a_list_says_which_request_ended_a_run_at_the_second_look_too(run: Run) -> None:
    run.events.emit("end", state="interrupted", exit_code=5, request="park")
    assert [row.request for row in list_runs() + list_runs()] == ["park", "park"]


def test_a_second_list_reads_only_what_was_added(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    list_runs()
    offsets = list[int]()

    def watched(path: Path, offset: int) -> EventReader:
        offsets.append(offset)
        return EventReader(path, offset)

    monkeypatch.setattr(listing, "EventReader", watched)
    size_bytes = run.events.path.stat().st_size
    run.events.emit("step", step=1, steps=2)
    assert list_runs()[0].step == 1
    assert offsets == [size_bytes]


@pytest.mark.parametrize("damage", ["deleted", "garbage", "empty", "wal left"])
def test_an_index_that_is_lost_or_damaged_is_made_anew(run: Run, home: Path, damage: str) -> None:
    before = list_runs()
    index = home / "data" / "index.db"
    if damage == "wal left":
        Path(f"{index}-wal").write_bytes(b"x" * 5000)
    index.unlink()
    if damage in ("garbage", "empty"):
        index.write_bytes(b"not a database " * 1000 if damage == "garbage" else b"")
    assert list_runs() == before
    with RunIndex() as opened:
        assert list(opened.rows().values()) == before


def test_a_deleted_run_leaves_the_list_and_its_number_a_fresh_row(run: Run) -> None:
    run.events.emit("end", state="done", exit_code=0)
    list_runs()
    shutil.rmtree(run.folder)
    again = create_run("model: zen-nano\n", {})
    assert again.id == run.id
    (row,) = list_runs()
    assert (row.state, row.model) == ("queued", "zen-nano")
    shutil.rmtree(again.folder)
    assert list_runs() == []


@pytest.mark.parametrize("config", ["", "[]", "model: [1]", "a: b: c", "\tx", "model: 5"])
def test_settings_that_name_no_model_do_not_stop_the_list(home: Path, config: str) -> None:
    create_run(config, {})
    assert [row.model for row in list_runs()] == [None]


def test_a_home_without_runs_has_an_empty_list(home: Path) -> None:
    assert list_runs() == []


def test_a_list_without_its_index_builds_no_settings(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a thousand runs are listed in half a second: 130 settings of each would take 6 s
    run.config_file.write_text("seed: 3\nmodel_name_or_path: 'zen-pico'\nstage: dpo\nnames: [a]\n")
    built: list[object] = []
    constructor = yaml.constructor.SafeConstructor
    monkeypatch.setattr(constructor, "construct_document", lambda *given: built.append(given))
    (row,) = list_runs()
    assert (row.model, row.stage, row.fault, built) == ("zen-pico", "dpo", None, [])


@pytest.mark.parametrize(
    ("text", "model", "stage", "fault"),
    [
        ("model: 3\n", None, None, "config.yaml: no model"),
        ("model: x\nstage: null\n", "x", None, None),
        ("model: x\n", "x", "sft", None),
        ("a: {model: y}\nmodel: 'x'\n", "x", "sft", None),
        ("a: model\n", None, None, "config.yaml: no model"),
        ("- model: x\n", None, None, "config.yaml: no model"),
        ("model: x\na: [\n", None, None, "config.yaml: broken YAML"),
        ("a: " + "[" * 100_000, None, None, "config.yaml: nested too deeply"),
    ],
)
def test_a_list_has_what_the_settings_say(
    run: Run, text: str, model: str | None, stage: str | None, fault: str | None
) -> None:
    run.config_file.write_text(text)
    (row,) = list_runs()
    assert (row.model, row.stage, row.fault) == (model, stage, fault)
