"""`zoo-gym runs` over run folders that are written by hand."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.jobs import Run, Status, create_run, open_run, read_status
from zoo.gym.jobs.identity import write_identity
from zoo.gym.paths import folders
from zoo.gym.processes import Identity, this_process

Call = Callable[..., Any]
EDITED = "model_name_or_path: zen-pico\ndataset: [a.jsonl]\nlearning_rate: 0.5\n"
BEGAN_WITH = {"model_name_or_path": "zen-pico", "dataset": ["a.jsonl"], "learning_rate": 0.25}


def test_no_runs_are_an_empty_list(call: Call) -> None:
    found = call("runs", "list", "--json")
    assert (found.code, found.json) == (0, {"runs": []})


def test_runs_are_listed_newest_first(call: Call, done: Run) -> None:
    create_run("model_name_or_path: b\n", {}).events.emit("end", state="failed", exit_code=1)
    rows = call("runs", "list", "--json").json["runs"]
    assert [(row["id"], row["state"], row["step"], row["pid"]) for row in rows] == [
        *(("r0002", "failed", 0, None), ("r0001", "done", 3, None))
    ]


def test_a_list_is_the_same_after_the_index_was_deleted(call: Call, done: Run) -> None:
    before = call("runs", "list", "--json").json
    for path in (index := folders().index).parent.glob(f"{index.name}*"):
        path.unlink()
    assert call("runs", "list", "--json").json == before
    assert index.is_file()


def test_a_run_whose_worker_died_is_listed_as_interrupted(call: Call) -> None:
    run = create_run("", {})
    run.events.emit("state", state="running")
    run.identity_file.write_text('{"pid": 4194305, "create_time": 1.0}')
    assert call("runs", "list", "--json").json["runs"][0]["state"] == "interrupted"
    assert "so a resume starts again" in str(call("runs", "show", "last").stdout)


def test_a_run_is_listed_in_a_line(call: Call, done: Run) -> None:
    found = call("runs", "list")
    assert found.stdout.split() == ["r0001", "done", "step", "3/3", "zen-pico"]


@pytest.mark.parametrize(
    ("stage", "line"), [("sft", "zen-pico"), ("grpo", "zen-pico (grpo)"), ("no: [", "damaged: ")]
)
def test_a_list_names_every_method_but_sft(call: Call, stage: str, line: str) -> None:
    create_run(f"model_name_or_path: zen-pico\nstage: {stage}\n", {})
    assert line in call("runs", "list").stdout.strip()
    assert "(sft)" not in call("runs", "list").stdout


@pytest.mark.parametrize(
    ("command", "argv", "within"),
    [
        ("`runs list`", ["runs", "list"], ["runs"]),
        ("`runs show`", ["runs", "show", "last"], []),
    ],
)
def test_the_page_of_commands_names_the_fields_of_the_json(
    call: Call, done: Run, command: str, argv: list[str], within: list[str]
) -> None:
    found = call(*argv, "--json").json
    keys = [*within, *(found["runs"][0] if within else found)]
    page = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
    (row,) = [line for line in page.read_text().splitlines() if line.startswith(f"| {command} |")]
    assert re.findall(r'"(\w+)"', row.split("`{")[1].split("}`")[0]) == keys


def test_the_model_of_a_run_is_its_own_result_once_another_run_replaced_the_copy(
    call: Call, tmp_path: Path
) -> None:
    run, copy = create_run("", {}), tmp_path / "out"
    for folder in (run.result, copy):
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(b"weights")
        (folder / "adapter_config.json").write_text("{}")
    run.events.emit("end", state="done", exit_code=0, model=str(copy), metrics={})
    assert call("runs", "show", "last", "--json").json["model"] == str(copy)
    (copy / "adapter_model.safetensors").write_bytes(b"others!")
    assert call("runs", "show", "last", "--json").json["model"] == str(run.result)
    last = call("runs", "tail", "last", "--json").stdout.splitlines()[-1]
    assert json.loads(last)["model"] == str(run.result)


def test_a_run_shows_its_state_settings_and_result(call: Call, done: Run) -> None:
    found = call("runs", "show", "last", "--json").json
    assert (found["id"], found["state"], found["model"]) == ("r0001", "done", "/m")
    assert found["metrics"] == {"best_loss": 0.25}
    assert found["config"] == {"model_name_or_path": "zen-pico", "dataset": ["a.jsonl"]}


def test_the_tail_of_a_run_is_its_events(call: Call, done: Run) -> None:
    lines = call("runs", "tail", "1", "--json").stdout.splitlines()
    kinds = [json.loads(line).get("kind") for line in lines]
    assert kinds == ["state", "step", "end", None]
    assert json.loads(lines[-1]) == {"run": "r0001", "state": "done", "model": "/m"}


def test_the_tail_for_people_has_the_lines_of_train(call: Call, done: Run) -> None:
    lines = call("runs", "tail", "last").stdout.splitlines()
    assert lines == ["queued", "step 3/3  loss 0.25", "done: /m"]


def test_the_tail_says_why_a_run_failed(call: Call) -> None:
    run = create_run("model_name_or_path: b\n", {})
    run.events.emit("plan", steps=1, rows=3, choices=[{"key": "a", "value": 1, "reason": "b"}])
    run.events.emit("end", state="failed", exit_code=1, message="no rows", hint="give some")
    out = call("runs", "tail", "last").stdout
    assert "3 rows to learn" in out
    assert "  a = 1: b\n" in out
    assert out.endswith("failed: no rows\nhint: give some\n")


def saved_run(best_step: int, **settings: object) -> Run:
    """A run that was stopped at step 4; 0 for no checkpoint is given as a negative best step."""
    run = create_run("model_name_or_path: b\n", {"settings": settings})
    run.events.emit("step", step=4, steps=9, loss=0.5)
    if best_step >= 0:
        folder = run.checkpoints / "step-00000004"
        folder.mkdir(parents=True)
        (folder / "progress.json").write_text(json.dumps({"best_step": best_step}))
    return run


RESUME, START = "resume r0001    continues it", "resume r0001    starts it again"


@pytest.mark.parametrize(
    ("best_step", "settings", "offered"),
    [
        (-1, {}, [START]),
        (0, {}, [RESUME, "finish r0001    makes a result of step 4"]),
        (3, {}, [RESUME, "finish r0001    makes a result of its best step (3)"]),
        (0, {"save_only_model": True}, ["finish r0001    makes a result of step 4"]),
    ],
)
def test_a_stopped_run_offers_only_what_is_possible(
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    best_step: int,
    settings: dict[str, object],
    offered: list[str],
) -> None:
    run = saved_run(best_step, **settings)
    ends = partial(run.events.emit, "end", state="interrupted", exit_code=5, request="stop")
    monkeypatch.setattr("zoo.gym.jobs.stop", lambda _: ends())
    found = call("runs", "stop", "last")
    assert found.code == 0
    assert found.stderr.splitlines() == [f"  zoo-gym runs {line}" for line in offered]


def test_a_run_without_a_result_says_how_to_get_one(call: Call) -> None:
    run = saved_run(0)
    assert "zoo-gym runs tail r0001 follows it" in call("chat", "--run", "last").stderr
    run.events.emit("end", state="interrupted", exit_code=5, request="stop")
    assert "finish r0001 makes one of step 4" in call("chat", "--run", "last").stderr


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what a finish does to a run, and does nothing."""
    done: list[str] = []

    def stop(run: Run) -> None:
        done.append("stop")
        run.events.emit("end", state="interrupted", exit_code=5, request="stop")

    def finish(run: Run) -> Status:
        done.append("finish")
        before = read_status(run)
        run.events.emit("end", state="done", exit_code=0, model="/m", metrics={"steps": 4})
        return before

    monkeypatch.setattr("zoo.gym.jobs.stop", stop)
    monkeypatch.setattr("zoo.gym.jobs.finish", finish)
    return done


def test_a_live_run_is_not_finished_without_a_confirmation(call: Call, finished: list[str]) -> None:
    saved_run(0)
    found = call("runs", "finish", "last")
    assert (found.code, finished) == (2, [])
    assert "expected a confirmation, because it is queued at step 4 of 9" in found.stderr
    assert "zoo-gym runs finish r0001 --yes" in found.stderr


def test_a_run_without_a_step_is_not_stopped_to_finish_it(call: Call, finished: list[str]) -> None:
    create_run("max_steps: 9\n", {})
    found = call("runs", "finish", "last", "--yes")
    assert (found.code, finished) == (2, [])
    assert "has nothing to keep yet: expected a step, got none" in found.stderr


def test_a_live_run_is_stopped_and_finished_with_yes(call: Call, finished: list[str]) -> None:
    saved_run(0)
    assert call("runs", "finish", "last", "--yes").code == 0
    assert finished == ["stop", "finish"]


def test_a_stopped_run_is_finished_without_a_question(call: Call, finished: list[str]) -> None:
    saved_run(0).events.emit("end", state="interrupted", exit_code=5, request="stop")
    assert call("runs", "finish", "last").code == 0
    assert finished == ["finish"]


def test_a_list_shows_the_step_that_a_killed_run_saved(call: Call) -> None:
    run = saved_run(0)
    run.events.emit("checkpoint", step=4)
    assert call("runs", "list", "--json").json["runs"][0]["saved"] == 4
    run.events.emit("step", step=6, steps=9)
    write_identity(run.identity_file, Identity(2**22 + 1, 1.0))
    assert "step 4/9" in call("runs", "list").stdout
    assert "step       4\n" in call("runs", "show", "last").stdout


@pytest.mark.parametrize("verb", ["pause", "stop"])
def test_a_run_that_is_done_cannot_be_steered(call: Call, done: Run, verb: str) -> None:
    found = call("runs", verb, "last")
    assert found.code == 2
    assert f"cannot {verb} run 'r0001'" in found.stderr


def test_a_run_that_is_done_cannot_be_resumed(call: Call, done: Run) -> None:
    found = call("runs", "resume", "last")
    assert (found.code, "run 'r0001' is done" in found.stderr) == (2, True)


def test_a_run_that_is_done_cannot_be_finished(call: Call, done: Run) -> None:
    found = call("runs", "finish", "last")
    assert (found.code, "run 'r0001' is done" in found.stderr) == (2, True)


def test_a_live_run_cannot_be_resumed_or_removed(call: Call) -> None:
    run = create_run("", {})
    run.events.emit("state", state="running")
    write_identity(run.identity_file, this_process())
    assert call("runs", "resume", "last").code == 2
    assert call("runs", "remove", "last", "--yes").code == 2


def test_a_run_that_makes_its_result_is_listed_as_finishing(call: Call) -> None:
    run = create_run("", {"finish_at": 4})
    run.events.emit("state", state="running")
    write_identity(run.identity_file, this_process())
    assert "r0001  finishing " in call("runs", "list").stdout
    assert "state      finishing\n" in call("runs", "show", "last").stdout
    run.events.emit("end", state="done", exit_code=0, model="/m")
    assert "r0001  done " in call("runs", "list").stdout


def test_a_worker_that_was_halted_later_ends_the_waiting(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run("model_name_or_path: b\n", {}).events.emit("state", state="running")
    monkeypatch.setattr("zoo.gym.cli.runs._ANSWER_S", 0.0)
    answers = iter([False, True])
    monkeypatch.setattr("zoo.gym.jobs.actions.is_halted", lambda _: next(answers))
    found = call("runs", "stop", "last")
    assert (found.code, "zoo-gym runs stop r0001 --kill" in found.stderr) == (1, True)


@pytest.mark.parametrize(("options", "wanted"), [([], "pause"), (["--park"], "park")])
def test_pausing_asks_the_worker_and_waits(
    call: Call, monkeypatch: pytest.MonkeyPatch, options: list[str], wanted: str
) -> None:
    run = create_run("model_name_or_path: b\n", {})
    run.events.emit("state", state="running")
    monkeypatch.setattr("zoo.gym.cli.runs.time.sleep", lambda _: obey(run))
    found = call("runs", "pause", *options, "last", "--json")
    state = "paused" if wanted == "pause" else "interrupted"
    assert found.json == {"run": "r0001", "state": state, "step": 0}
    assert run.control.pending() == wanted


def test_stopping_a_paused_run_waits_for_its_end(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run("model_name_or_path: b\n", {})
    run.events.emit("state", state="paused")
    monkeypatch.setattr("zoo.gym.cli.runs.time.sleep", lambda _: obey(run))
    assert call("runs", "stop", "last", "--json").json["state"] == "interrupted"


@pytest.mark.parametrize(
    ("request_", "name"), [("stop", "stopped"), ("park", "parked"), (None, "interrupted")]
)
def test_an_ended_run_is_named_by_the_request_that_ended_it(
    call: Call, request_: str | None, name: str
) -> None:
    run = create_run("model_name_or_path: b\n", {})
    run.events.emit("end", state="interrupted", exit_code=5, request=request_)
    assert f"r0001  {name} " in str(call("runs", "list").stdout)
    assert f"state      {name}\n" in str(call("runs", "show", "last").stdout)


def obey(run: Run) -> None:
    """Does what a worker does when it sees a request."""
    request = open_run("last").control.pending()
    assert request
    run.events.emit("state", state="paused" if request == "pause" else "interrupted")


@pytest.mark.parametrize(("words", "end"), [([], "run r0001 is done: /m"), (["--detach"], "")])
def test_resuming_waits_as_train_does(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: list[str], end: str
) -> None:
    run = create_run("model_name_or_path: b\ndataset: [a.jsonl]\n", {})
    run.events.emit("state", state="paused")
    run.control.request("pause")

    def clears(run: Run, changes: tuple[str, ...]) -> object:
        before = jobs_resume(run, changes)
        run.events.emit("end", state="done", exit_code=0, model="/m", metrics={})
        return before

    from zoo.gym.jobs import resume as jobs_resume

    monkeypatch.setattr("zoo.gym.jobs.resume", clears)
    found = call("runs", "resume", "last", *words)
    assert (found.code, found.stdout.strip()) == (0, end)
    assert ("follow it: zoo-gym runs tail r0001" in found.stderr) is bool(words)


def test_a_run_whose_settings_were_edited_is_not_resumed(call: Call) -> None:
    run = create_run(EDITED, {"settings": BEGAN_WITH})
    run.events.emit("end", state="interrupted", exit_code=5)
    found = call("runs", "resume", "last")
    assert found.code == 2
    assert f"{run.config_file}: learning_rate was edited since the run began" in found.stderr
    assert "zoo-gym runs resume r0001 --set learning_rate=0.5" in found.stderr
    assert read_status(run).state == "interrupted"


def test_a_held_run_takes_no_other_settings(call: Call) -> None:
    run = create_run(EDITED, {})
    run.events.emit("state", state="paused")
    run.control.request("pause")
    found = call("runs", "resume", "last", "--set", "max_steps=3")
    assert (found.code, "runs pause r0001 --park" in found.stderr) == (2, True)
    assert run.control.pending() == "pause"


def test_a_renamed_run_is_shown_by_both(call: Call, done: Run) -> None:
    assert call("runs", "rename", "last", "chats", "--json").json == {
        "run": "r0001",
        "name": "chats",
    }
    assert call("runs", "list").stdout.split()[-1] == "chats"
    assert call("runs", "show", "chats", "--json").json["name"] == "chats"
