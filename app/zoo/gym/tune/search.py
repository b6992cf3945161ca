"""The search: one trial after the other, each a run, until the budget is spent.

The first run has the settings without the ranges, as `train` would take them: a winner is compared
with it. A trial is pruned, which stops its run, if its held-out figure is worse than the
median of the trials before at the same share of their steps.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from zoo.gym.config.items import value_text
from zoo.gym.config.load import Loaded, ours
from zoo.gym.errors import GymError, InputError, InterruptedRunError, NotAvailableError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.files.yaml_entries import read_entries
from zoo.gym.jobs import Event, Run, Status, follow, launch, open_run, reconcile, resume
from zoo.gym.tune.space import Range, Value
from zoo.gym.tune.study import RUN, SCORE, Trials

if TYPE_CHECKING:
    from optuna.trial import Trial

SHARES = 1000
"""A run has so many points at which trials are compared, whatever its number of steps."""

MOST_FAILED = 3
"""After so many failed trials in a row the search ends."""

START_FILE = "start.json"

_ATTEMPTS = 2  # a worker that something killed is started once more


class Start(Protocol):
    """Makes the run of some settings, checked, without starting it."""

    def __call__(self, settings: Mapping[str, Value], name: str, /) -> Run:
        """Makes a run with these settings in addition to the user's."""
        ...


@dataclass(frozen=True)
class Outcome:
    """A run of the search.

    Attributes:
        number: of the trial; None for the run without searched settings.
        run: the id of its run.
        settings: the searched settings.
        score: the best held-out figure; None if there is none.
        state: how it ended.
    """

    number: int | None
    run: str
    settings: Mapping[str, Value]
    score: float | None
    state: str


@dataclass(frozen=True)
class Budget:
    """How much is tried.

    Attributes:
        trials: the trials of the study, those of earlier calls included.
        deadline: the `time.monotonic` after which no trial begins and the running one stops.
    """

    trials: int
    deadline: float | None

    def is_over(self) -> bool:
        """Returns whether the time is over."""
        return self.deadline is not None and time.monotonic() >= self.deadline


Watch = Callable[[Outcome], object]


def check_ends(ranges: Sequence[Range], load: Callable[[Sequence[str]], Loaded]) -> None:
    """Checks that the settings take both ends of each range and every choice, and have an effect.

    Args:
        ranges: see `parse_ranges`.
        load: reads the user's settings with more `KEY=VALUE`.

    Raises:
        InputError: one is refused, or has no effect beside the others.
    """
    for each in ranges:
        for end in each.ends:
            others = [
                f"{other.key}={value_text(other.ends[0])}" for other in ranges if other != each
            ]
            loaded = load([*others, f"{each.key}={value_text(end)}"])
            for ignored in loaded.ignored:
                if ours(ignored.key) == each.key:
                    raise InputError(
                        f"{each.key}: has no effect with these settings: {ignored.reason}",
                        code="tune.no_effect",
                    )


def search(trials: Trials, start: Start, budget: Budget, watch: Watch) -> Outcome:
    """Tries settings until the budget is spent; returns the run without searched settings.

    Args:
        trials: the study.
        start: see `Start`.
        budget: see `Budget`.
        watch: called with each run that ended.

    Raises:
        InterruptedRunError: Ctrl-C, or the time is over before the first run is done; the same
            call goes on.
        GymError: a setting did not reach its run, or several trials failed in a row.
        InputError: the run holds out no rows.
    """
    first = _first(trials, start, budget, watch)
    failed = 0
    while len(trials.ended()) < budget.trials:
        if budget.is_over():
            break
        try:
            outcome = _try(trials, start, budget)
        except InterruptedRunError as error:
            if error.code != "tune.time_over":
                raise
            break  # the trial is saved, and is the next one of the same call
        watch(outcome)
        failed = failed + 1 if outcome.state == "failed" else 0
        if failed == MOST_FAILED:
            raise GymError(
                f"{MOST_FAILED} trials failed in a row, the last one as run {outcome.run}",
                hint=f"zoo-gym runs show {outcome.run} says why",
                code="tune.failed",
            )
    return first


def _first(trials: Trials, start: Start, budget: Budget, watch: Watch) -> Outcome:
    """Returns the run without searched settings, which is made once in a study."""
    file = trials.folder / START_FILE
    stored = read_json_object(file) or {}
    run = _known(stored.get(RUN))
    if run is None:
        run = start({}, f"{trials.name}-start")
        write_beside(file, f'{{"{RUN}": "{run.id}"}}\n', sync=True)
    was_done = reconcile(run).state == "done"
    status = _finish(run, trials, budget, lambda _: False)
    outcome = Outcome(None, run.id, {}, _score(status, trials), status.state)
    if status.state != "done":
        reason = "" if status.message is None else f": {status.message}"
        raise GymError(
            f"run {run.id}, without the searched settings, ended as {status.state}{reason}",
            hint=status.hint or f"zoo-gym runs show {run.id} says why",
            code="tune.failed",
        )
    if outcome.score is None:
        raise InputError(
            f"run {run.id} held out no rows: expected some, by whose {trials.plan.decides} trials"
            " are compared",
            hint="val_size=0.1",
            code="tune.no_rows",
        )
    if not was_done:
        watch(outcome)
    return outcome


def _try(trials: Trials, start: Start, budget: Budget) -> Outcome:
    """Makes or continues a trial, and returns how it ended."""
    trial, settings = trials.next()
    run = _known(trial.user_attrs.get(RUN))
    if run is None:
        run = start(settings, f"{trials.name}-{trial.number:04}")
        check_reached(run, settings)
        trial.set_user_attr(RUN, run.id)
    pruning = _Pruning(trial, trials.plan.decides)
    status = _finish(run, trials, budget, pruning)
    score = _score(status, trials)
    if score is not None:
        trial.set_user_attr(SCORE, score)
    # pruned even if its run was done before it could be stopped: a search repeats itself exactly
    trials.tell(trial, score if status.state == "done" else None, pruned=pruning.pruned)
    state = "pruned" if pruning.pruned else "failed" if score is None else status.state
    return Outcome(trial.number, run.id, settings, score, state)


def check_reached(run: Run, settings: Mapping[str, Value]) -> None:
    """Checks that a run has the settings of its trial.

    Raises:
        GymError: one is another.
    """
    stored = {entry.key: entry.value for entry in read_entries(run.config_file)}
    for key, value in settings.items():
        if key not in stored or not _same(stored[key], value):
            raise GymError(
                f"run {run.id}: expected {key} {value_text(value)}, got {stored.get(key)}",
                code="tune.not_reached",
            )


def _same(stored: object, value: Value) -> bool:
    if isinstance(value, bool) or isinstance(stored, bool):
        return stored is value
    if isinstance(value, int | float):
        return float(str(stored)) == value
    return str(stored) == value


def _known(run: object) -> Run | None:
    """Returns a run of an earlier call; None if it was removed."""
    try:
        return open_run(run) if isinstance(run, str) else None
    except NotAvailableError:
        return None


class _Pruning:
    """Reports the figures of a run to Optuna, and returns whether the run is to be stopped."""

    def __init__(self, trial: "Trial", decides: str) -> None:
        self._trial, self._decides, self._steps = trial, decides, 0
        self.pruned = False

    def __call__(self, event: Event) -> bool:
        if self.pruned:
            return True
        if event["kind"] == "plan":
            self._steps = event["steps"]
        if event["kind"] != "eval" or not event["step"] or not self._steps:
            return False
        score = figure_of(event, self._decides)
        if score is not None:
            share = SHARES * event["step"] // self._steps
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a resumed run reports some steps again
                self._trial.report(score, share)
            self.pruned = share < SHARES and self._trial.should_prune()
        return self.pruned


def figure_of(event: Event, decides: str) -> float | None:
    """Returns the figure of an evaluation that trials are compared by."""
    value: Any = event.get("loss") if decides == "loss" else event.get("metrics", {}).get(decides)
    return float(value) if isinstance(value, int | float) else None


def _finish(run: Run, trials: Trials, budget: Budget, prunes: Callable[[Event], bool]) -> Status:
    """Starts a run, or continues it, and follows it to its end.

    Args:
        run: the run.
        trials: the study.
        budget: see `Budget`.
        prunes: called with each event; returns whether the run is to be stopped.

    Raises:
        InterruptedRunError: Ctrl-C, or the time is over.
    """
    stop = False

    def on_event(event: Event) -> None:
        nonlocal stop
        stop = prunes(event) or stop

    status = Status()
    for _ in range(_ATTEMPTS):
        state = reconcile(run).state
        if state == "queued":
            launch(run)
        elif state in {"interrupted", "paused"}:
            resume(run)
        status = follow(run, on_event, should_stop=lambda: stop or budget.is_over())
        if stop or status.state in {"done", "failed"}:
            return status
        if status.request is not None:
            break
    else:
        return status
    if budget.is_over():
        raise InterruptedRunError(
            f"study '{trials.name}': the time is over after {len(trials.ended())} trials",
            hint="the same command continues it",
            code="tune.time_over",
        )
    raise InterruptedRunError(
        f"study '{trials.name}' was stopped in run {run.id}",
        hint="the same command continues it",
        code="tune.stopped",
    )


def _score(status: Status, trials: Trials) -> float | None:
    """Returns the best held-out figure of a run."""
    metrics = status.metrics or {}
    best = metrics.get(f"best_{trials.plan.decides}") if metrics else status.best
    return float(best) if isinstance(best, int | float) else None
