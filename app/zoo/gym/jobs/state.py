"""The state of a run, derived from its events and from whether its process is alive."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast, get_args

from zoo.gym.errors import EXIT_CODES, InterruptedRunError, StorageError
from zoo.gym.files.lock import locked
from zoo.gym.jobs.events import Event, tail_events
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.run import Run, is_experience
from zoo.gym.processes import is_alive, is_halted
from zoo.gym.train.run_folder.ended import makes_result, read_ended

State: TypeAlias = Literal["queued", "running", "paused", "done", "failed", "interrupted"]

STATES: tuple[str, ...] = get_args(State)
LIVE: frozenset[State] = frozenset({"queued", "running", "paused"})
"""States that need a process; without one the run is interrupted."""

_MOVES = frozenset({"state", "end"})
_PAST = {"stop": "stopped", "park": "parked"}
_HUGE = 2**63  # the index stores 64-bit integers
_LATEST = 32_503_680_000.0  # the year 3000, the last that every system can format


@dataclass(frozen=True)
class Status:
    """The status of a run according to its events.

    Attributes:
        state: the last reported state.
        step: the last step that finished; after a kill or a finish, the step of the saved state.
        steps: the planned number of steps, None before the plan is known.
        created: Unix seconds of the first event.
        updated: Unix seconds of the last event.
        offset: bytes of the log read so far.
        exit_code: the worker's exit code, see `zoo.gym.errors`; None while it is alive.
        message: why it failed or was interrupted.
        hint: how to fix that.
        code: the code of that error, see docs/reference/errors.md; None for errors of the engines,
            and in logs of older versions.
        model: the folder of the trained model.
        metrics: the figures of the end event.
        saved: the step of the last checkpoint, 0 if there is none.
        request: "stop" or "park" if that ended an interrupted run, None for a killed run.
        decides: the name of the metric that the best step is chosen by, None before the plan.
        best: its best value on held-out rows, None before the first evaluation in training.
        saved_best: the same at the last checkpoint; a resume continues from it.
        reached: the last step that finished, even if it was lost; a resume trains it again.
    """

    state: State = "queued"
    step: int = 0
    steps: int | None = None
    created: float = 0.0
    updated: float = 0.0
    offset: int = 0
    exit_code: int | None = None
    message: str | None = None
    hint: str | None = None
    code: str | None = None
    model: str | None = None
    metrics: Mapping[str, Any] | None = None
    saved: int = 0
    request: str | None = None
    decides: str | None = None
    best: float | None = None
    saved_best: float | None = None
    reached: int = 0

    @property
    def live(self) -> bool:
        """Whether this state needs a process."""
        return self.state in LIVE


def state_name(state: str, request: str | None) -> str:
    """Returns the displayed state: stopped, parked or interrupted for an interrupted run."""
    return _PAST.get(request or "", state) if state == "interrupted" else state


def is_finishing(run: Run, state: str) -> bool:
    """Returns whether a live run only makes its result, without further training."""
    return state in LIVE and makes_result(run.folder)


def displayed_state(run: Run, state: str, request: str | None) -> str:
    """Returns the state of a run as lists show it: `state_name`, or finishing."""
    return "finishing" if is_finishing(run, state) else state_name(state, request)


def fold(status: Status, events: Iterable[Event]) -> Status:
    """Returns `status` updated with later events; unknown kinds change nothing."""
    created, updated = status.created, status.updated
    step, saved, steps, reached = status.step, status.saved, status.steps, status.reached
    later: dict[str, Any] = {}  # what has changed since `status`: making one is slow
    for event in events:
        updated = _time(event.get("t"), updated)
        created = created or updated
        kind = event["kind"]
        if kind == "step":
            reached = step = _count(event.get("step"), step) or 0
            steps = _count(event.get("steps"), steps)
        elif kind == "checkpoint":
            saved = _count(event.get("step"), saved) or 0
            later["saved_best"] = later.get("best", status.best)
        elif kind == "eval" and event.get("best") is True:
            later["best"] = _decided(event, later.get("decides", status.decides))
        elif kind == "plan":
            steps = _count(event.get("steps"), steps)
            later["decides"] = _text(event.get("decides"))
        elif kind in _MOVES and event.get("state") in STATES:
            previous = replace(status, **later) if later else status
            later, status = {}, _moved(previous, event)
            was, (step, saved) = saved, _step_after(previous, status, event, step, saved)
            status = _best_after(previous, status, is_last_kept=saved == was)
    later |= {"created": created, "updated": updated, "step": step, "steps": steps}
    return replace(status, **later, saved=saved, reached=reached)


def _step_after(
    previous: Status, status: Status, event: Event, step: int, saved: int
) -> tuple[int, int]:
    """Returns the step and the saved step after a change of state.

    Steps after the last checkpoint are lost by a kill, and discarded by a new worker.
    """
    if status.state == "interrupted" and status.request is None:
        saved = _count(event.get("saved"), saved) or 0
        return saved, saved
    if status.state == "queued" and not previous.live:
        return saved, saved
    if status.state == "done" and status.metrics is not None:
        return _count(status.metrics.get("steps"), step) or 0, saved
    return step, saved


def _decided(event: Event, decides: str | None) -> float | None:
    """Returns the value in an evaluation that the best step is chosen by."""
    metrics = event.get("metrics")
    metrics_or_event = event if decides == "loss" else metrics if isinstance(metrics, dict) else {}
    return _finite(cast("Mapping[str, Any]", metrics_or_event).get(decides or ""))


def _best_after(previous: Status, status: Status, *, is_last_kept: bool) -> Status:
    """Returns a status after a change of state; the best of lost steps is lost with them.

    Args:
        previous: the status before the change.
        status: the status after it.
        is_last_kept: whether a resume continues from the last checkpoint of the log.
    """
    if status.state == "done" and status.metrics is not None:
        best = _finite(status.metrics.get(f"best_{status.decides}"))
        return replace(status, best=best, saved_best=best)
    killed = status.state == "interrupted" and status.request is None
    if killed or (status.state == "queued" and not previous.live):
        best = status.saved_best if is_last_kept else None
        return replace(status, best=best, saved_best=best)
    return status


def read_status(run: Run) -> Status:
    """Returns the status according to the whole log; does not check for a live process."""
    events, offset = tail_events(run.events.path)
    return replace(fold(Status(), events), offset=offset)


def has_worker(run: Run) -> bool:
    """Returns whether the process that works on a run, or starts it, is alive."""
    return is_alive(read_identity(run.identity_file))


def has_halted_worker(run: Run) -> bool:
    """Returns whether the process that works on a run is suspended from outside."""
    return is_halted(read_identity(run.identity_file))


def reconcile(run: Run, status: Status | None = None) -> Status:
    """Returns the status of a run, after marking it interrupted if its process is gone.

    Args:
        run: any run.
        status: its last known status; None reads the log.
    """
    last = status or read_status(run)
    if not last.live or has_worker(run):
        return last
    try:
        with locked(run.lock_file) as held:
            # a worker that ended meanwhile has logged it by now, and one that starts has the lock
            last = read_status(run)
            if not held or not last.live or has_worker(run):
                return last
            return fold(last, [run.events.emit("state", **_gone(run, last))])
    except StorageError:
        return fold(last, [{"kind": "state"} | _gone(run, last)])  # true even if not written


def _gone(run: Run, status: Status) -> dict[str, object]:
    ended = read_ended(run.folder)
    what = f"a resume continues from the checkpoint of step {ended.step}"
    if is_experience(run):
        what = "a resume continues with the answers in its journal"
    elif not ended.step:
        what = "no checkpoint was written, so a resume starts again"
    elif not ended.resumable:
        what = f"it can be finished from step {ended.step}, but not resumed: save_only_model"
    gone = InterruptedRunError(
        f"the worker is gone at step {status.step}: {what}", code="jobs.worker_gone"
    )
    fields = {"message": gone.message, "code": gone.code, "saved": ended.step}
    return {"state": "interrupted", **fields}


def _moved(status: Status, event: Event) -> Status:
    state = cast("State", event["state"])
    code = None if state in LIVE else EXIT_CODES[InterruptedRunError]
    metrics = event.get("metrics")
    return replace(
        status,
        state=state,
        exit_code=_count(event.get("exit_code"), code),
        message=_text(event.get("message")),
        hint=_text(event.get("hint")),
        code=_text(event.get("code")),
        model=_text(event.get("model")),
        metrics=cast("Mapping[str, Any]", metrics) if isinstance(metrics, dict) else None,
        request=_request(event) if state == "interrupted" else None,
    )


def _request(event: Event) -> str | None:
    """Returns the request that ended a run; in older logs it is the first word of the message."""
    message = _text(event.get("message")) or ""
    request = _text(event.get("request")) or message.partition(" ")[0]
    return request if request in _PAST else None


def _time(value: object, otherwise: float) -> float:
    if type(value) is float or type(value) is int:
        return float(value) if 0 <= value < _LATEST else otherwise
    return otherwise


def _count(value: object, otherwise: int | None) -> int | None:
    return value if type(value) is int and -_HUGE < value < _HUGE else otherwise


def _finite(value: object) -> float | None:
    number = value if type(value) is float else _count(value, None)
    return float(number) if number is not None and math.isfinite(number) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
