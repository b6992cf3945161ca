import dataclasses
import json
import math
from collections.abc import Callable

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.files.lock import locked
from zoo.gym.jobs.events import tail_events
from zoo.gym.jobs.identity import read_identity, write_identity
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import Status, fold, read_status, reconcile, state_name
from zoo.gym.processes import Identity, is_alive, this_process

GONE = Identity(pid=2**22 + 1, create_time=1.0)  # above the largest pid of Linux
JUNK = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers())


@pytest.mark.parametrize("state", ["queued", "running", "paused"])
def test_a_live_run_whose_process_is_gone_becomes_interrupted(run: Run, state: str) -> None:
    run.events.emit("state", state=state)
    run.events.emit("step", step=7, steps=9)
    write_identity(run.identity_file, GONE)
    status = reconcile(run)
    assert (status.state, status.exit_code) == ("interrupted", 5)
    assert read_status(run).state == "interrupted"


@pytest.mark.parametrize(
    ("saved", "settings", "message"),
    [
        (0, {}, "at step 7: no checkpoint was written, so a resume starts again"),
        (5, {}, "at step 7: a resume continues from the checkpoint of step 5"),
        (5, {"save_only_model": True}, "at step 7: it can be finished from step 5, but not resume"),
        (5, {"save_only_model": True, "max_steps": 5}, "a resume continues from the checkpoint"),
    ],
)
def test_a_killed_run_is_at_the_step_that_it_saved(
    run: Run, saved: int, settings: dict[str, object], message: str
) -> None:
    run.env_file.write_text(json.dumps({"settings": settings}))
    if saved:
        (run.checkpoints / f"step-{saved:08}").mkdir(parents=True)
    run.events.emit("step", step=7, steps=9)
    write_identity(run.identity_file, GONE)
    for status in (reconcile(run), read_status(run)):
        assert (status.step, status.saved, status.reached) == (saved, saved, 7)
        assert message in str(status.message)


def test_a_run_that_was_killed_and_finished_is_at_its_last_step(run: Run) -> None:
    run.events.emit("checkpoint", step=70)
    run.events.emit("step", step=78, steps=100)
    run.events.emit("end", state="failed", exit_code=1)
    assert read_status(run).step == 78
    for state in ("queued", "running"):
        run.events.emit("state", state=state)
        assert (read_status(run).step, read_status(run).reached) == (70, 78)
    run.events.emit("plan", steps=70)
    run.events.emit("end", state="done", exit_code=0, metrics={"steps": 70})
    assert (read_status(run).step, read_status(run).steps) == (70, 70)


def test_a_stopped_run_is_at_its_last_step(run: Run) -> None:
    run.events.emit("step", step=7, steps=9)
    run.events.emit("end", state="interrupted", exit_code=5, request="stop")
    assert read_status(run).step == 7


def test_a_run_is_marked_interrupted_once(run: Run) -> None:
    write_identity(run.identity_file, GONE)
    reconcile(run)
    reconcile(run)
    assert len(tail_events(run.events.path)[0]) == 2


@pytest.mark.parametrize("state", ["done", "failed", "interrupted"])
def test_a_run_that_ended_stays_as_it_is(run: Run, state: str) -> None:
    run.events.emit("end", state=state, exit_code=0)
    write_identity(run.identity_file, GONE)
    assert reconcile(run).state == state
    assert len(tail_events(run.events.path)[0]) == 2


def test_a_run_whose_process_lives_stays_as_it_is(run: Run) -> None:
    assert reconcile(run).state == "queued"


def test_a_pid_that_another_process_got_is_not_the_worker(run: Run) -> None:
    me = this_process()
    write_identity(run.identity_file, dataclasses.replace(me, create_time=me.create_time - 60))
    assert reconcile(run).state == "interrupted"


def test_a_run_whose_lock_is_held_is_not_touched(run: Run) -> None:
    write_identity(run.identity_file, GONE)
    with locked(run.lock_file) as held:
        assert held
        assert reconcile(run).state == "queued"


def test_an_end_that_came_in_between_is_kept(run: Run) -> None:
    before = read_status(run)
    run.events.emit("end", state="done", exit_code=0)
    write_identity(run.identity_file, GONE)
    assert reconcile(run, before).state == "done"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"pid": "1"}', "\0", '{"pid": 5}'])
def test_an_identity_that_cannot_be_read_is_nobody(run: Run, content: str) -> None:
    run.identity_file.write_text(content)
    assert read_identity(run.identity_file) is None
    assert reconcile(run).state == "interrupted"


@pytest.mark.parametrize("pid", [-1, 0, 2**22 + 1, 2**80])
def test_a_pid_that_no_process_has_is_not_alive(pid: int) -> None:
    assert not is_alive(Identity(pid, this_process().create_time))


def test_a_process_that_ended_but_was_not_waited_for_is_not_alive(
    until: Callable[[Callable[[], bool]], None],
) -> None:
    process = psutil.Popen(["true"])
    identity = Identity(process.pid, process.create_time())
    until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    assert not is_alive(identity)
    process.wait()


def test_the_end_event_gives_code_message_model_and_metrics(run: Run) -> None:
    run.events.emit("plan", steps=4)
    run.events.emit("end", state="done", exit_code=0, model="/m", metrics={"loss": 1.5})
    status = read_status(run)
    assert (status.state, status.steps, status.exit_code) == ("done", 4, 0)
    assert (status.model, status.metrics) == ("/m", {"loss": 1.5})


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"request": "stop", "message": "stop at step 3 of 9"}, "stopped"),
        ({"request": "park"}, "parked"),
        ({"message": "park at step 3 of 9"}, "parked"),  # as older versions wrote it
        ({"message": "the worker is gone at step 3"}, "interrupted"),
        ({"request": ["stop"]}, "interrupted"),
    ],
)
def test_an_interrupted_run_is_called_by_the_request_that_ended_it(
    run: Run, fields: dict[str, object], name: str
) -> None:
    run.events.emit("end", state="interrupted", exit_code=5, **fields)
    status = read_status(run)
    assert state_name(status.state, status.request) == name


def test_a_failed_run_has_no_request(run: Run) -> None:
    run.events.emit("end", state="failed", exit_code=1, message="stop it")
    assert read_status(run).request is None


def test_going_on_forgets_the_old_end(run: Run) -> None:
    run.events.emit("end", state="failed", exit_code=1, message="no", hint="do")
    run.events.emit("state", state="running")
    status = read_status(run)
    assert (status.exit_code, status.message, status.hint) == (None, None, None)


FIELDS = st.sampled_from(["t", "state", "step", "steps", "decides", "best", "loss", "metrics"])


@pytest.mark.slow
@given(st.lists(st.dictionaries(FIELDS, JUNK)), st.data())
def test_any_fields_fold_into_a_status(rows: list[dict[str, object]], data: st.DataObject) -> None:
    kinds = st.sampled_from(["state", "plan", "step", "eval", "checkpoint", "end", "other"])
    events = [row | {"kind": data.draw(kinds)} for row in rows]
    status = fold(Status(), events)
    assert isinstance(status.step, int)
    assert status.best is None or math.isfinite(status.best)
    assert status.state == "queued"


@pytest.mark.slow
@given(st.lists(st.sampled_from(["running", "paused", "done", "failed"]), max_size=6), st.data())
def test_folding_in_two_parts_is_folding_at_once(states: list[str], data: st.DataObject) -> None:
    events = [{"kind": "state", "state": s, "t": float(n + 1)} for n, s in enumerate(states)]
    cut = data.draw(st.integers(0, len(events)))
    assert fold(fold(Status(), events[:cut]), events[cut:]) == fold(Status(), events)
