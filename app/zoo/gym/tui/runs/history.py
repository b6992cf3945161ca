"""A run as its screen shows it: its curves and latest values, folded from its events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from zoo.gym.humanize import figure
from zoo.gym.jobs import Event, Status
from zoo.gym.jobs.state import fold

Point: TypeAlias = tuple[int, float]
"""A step and its loss, or the value of another metric."""

MOST = 1e300
"""Losses beyond it, and values that are not numbers, are not drawn."""

NOTES = 200
"""How many messages are kept, the newest ones."""


@dataclass
class History:
    """Everything that the events so far report; `take` adds later ones.

    Attributes:
        status: as the commands see it.
        losses: one point per step, in order; a resume from an earlier step removes the later ones.
        held_out: one point per evaluation; step 0 is the model before training.
        scores: the same for the metric that decides which step is best.
        best_steps: the steps that were the best so far when they were evaluated.
        evaluated: whether held-out rows were scored at all.
        plan: the plan event.
        last: the last step event.
        saved_step: the step of the newest checkpoint.
        metrics: the latest value of each metric that a step reported.
        held_out_metrics: the same for evaluations.
        answers: the newest answers to prompts of the data.
        lesson_steps: the events of steps that learned lessons, by step; they have no loss.
        notes: messages, oldest first.
    """

    status: Status = field(default_factory=Status)
    losses: list[Point] = field(default_factory=list[Point])
    held_out: list[Point] = field(default_factory=list[Point])
    scores: list[Point] = field(default_factory=list[Point])
    best_steps: list[int] = field(default_factory=list[int])
    evaluated: bool = False
    plan: Event = field(default_factory=dict[str, object])
    last: Event = field(default_factory=dict[str, object])
    saved_step: int | None = None
    metrics: dict[str, object] = field(default_factory=dict[str, object])
    held_out_metrics: dict[str, object] = field(default_factory=dict[str, object])
    answers: list[Event] = field(default_factory=list[Event])
    lesson_steps: dict[int, Event] = field(default_factory=dict[int, Event])
    notes: list[str] = field(default_factory=list[str])

    def take(self, events: Sequence[Event]) -> None:
        """Adds later events; unknown kinds and fields change nothing."""
        self.status = fold(self.status, events)
        newest = self.last.get("step", -1)
        for event in events:
            if event["kind"] != "step":
                self._take_other(event)
                continue
            if "metrics" in event:
                _update(self.metrics, event)
            step, loss = event.get("step"), event.get("loss")
            if type(step) is not int:
                continue
            if (
                step > newest and type(loss) is float and -MOST < loss < MOST
            ):  # nearly every line of a long log
                self.losses.append((step, loss))
                self.last = event
            else:
                self._take_step(event)
            newest = step
        del self.notes[:-NOTES]

    @property
    def watched(self) -> list[str]:
        """The metrics that the method wants shown, as its plan names them."""
        names = self.plan.get("watch")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    @property
    def loss_unit(self) -> str:
        """The unit of the loss; empty if it has none. Plans of earlier versions do not name it."""
        unit = self.plan.get("loss_unit", "nats per token")
        return unit.replace(" per ", "/") if isinstance(unit, str) else ""

    @property
    def decides(self) -> str:
        """What the best step is chosen by: `loss`, or the name of a metric."""
        name = self.plan.get("decides")
        return name if isinstance(name, str) else "loss"

    def improves(self, score: float, other: float) -> bool:
        """Returns whether a value of the deciding metric is better than another."""
        return score > other if self.plan.get("better") == "higher" else score < other

    def best(self) -> Point | None:
        """Returns the evaluation that the run chose as the best, never the one before training."""
        steps = {step for step in self.best_steps if step}
        return next((point for point in reversed(self.scores) if point[0] in steps), None)

    def _take_other(self, event: Event) -> None:
        match event["kind"]:
            case "plan":
                self.plan = event
            case "eval" if isinstance(event.get("step"), int):
                self._take_evaluation(event, event["step"])
            case "checkpoint" if isinstance(event.get("step"), int):
                self.saved_step = event["step"]
            case "answers":
                answers = event.get("answers")
                entries: list[object] = answers if isinstance(answers, list) else []
                self.answers = [each for each in entries if isinstance(each, dict)]
                if "message" in event:
                    self.notes.append(str(event["message"]))
            case "retention" if (message := str(event.get("message"))) not in self.notes:
                self.notes.append(message)
            case "warn" | "error":
                word = "warning" if event["kind"] == "warn" else "error"
                note = f"{word}: {event.get('message')}"
                if note not in self.notes:  # a resume emits those of its start again
                    self.notes.append(note)
            case "state" if event.get("message") and event.get("state") != "queued":
                self.notes.append(str(event["message"]))
            case _:
                pass

    def _take_evaluation(self, event: Event, step: int) -> None:
        _put(self.held_out, step, event.get("loss"))
        _update(self.held_out_metrics, event)
        _put(self.scores, step, _score(event, self.decides))
        self.evaluated = True
        if event.get("best") is True:
            self.best_steps.append(step)

    def _take_step(self, event: Event) -> None:
        if "lessons" in event:
            self.lesson_steps[event["step"]] = self.last = event
            return
        if self.last and event["step"] <= self.last["step"]:
            self.held_out = [point for point in self.held_out if point[0] < event["step"]]
            self.scores = [point for point in self.scores if point[0] < event["step"]]
            self.best_steps = [step for step in self.best_steps if step < event["step"]]
            self.notes.append(f"resumed from step {event['step'] - 1}, the last checkpoint")
        self.last = event
        if not _put(self.losses, event["step"], event.get("loss")) and "loss" in event:
            self.notes.append(f"warning: the loss of step {event['step']} is not a number")


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Returns at most `most` points: means over equal parts, with the first and the last step."""
    if len(points) <= most:
        return list(points)
    kept_points: list[Point] = []
    for i in range(most):
        part = points[i * len(points) // most : (i + 1) * len(points) // most]
        step = part[0][0] if i == 0 else part[-1][0]
        kept_points.append((step, sum(loss for _, loss in part) / len(part)))
    return kept_points


def meaning(history: History, *, measures_later: bool = False) -> str:
    """Returns what the curves mean, for somebody who has never seen one.

    Args:
        history: of the run.
        measures_later: whether the run measures its result on tasks after the training.
    """
    if not history.losses:
        return "No step has finished yet."
    trend = _trend([loss for _, loss in history.losses], is_over=history.status.state == "done")
    loss = f"The loss {trend}"
    if history.status.state == "failed":
        return f"{loss}. The run failed before it had a result."
    if history.evaluated and not history.scores:
        return f"{loss}. No number for the held-out {history.decides} was measured."
    if not history.scores and measures_later:
        return f"{loss}. What was gained is measured on held-out tasks after the training."
    if not history.scores:
        return f"{loss}. No examples were held out, so memorising cannot be ruled out."
    return f"{loss}. {_held_out_words(history)}"


def _held_out_words(history: History) -> str:
    name, best, last = f"held-out {history.decides}", history.best(), history.scores[-1]
    if not last[0]:
        return f"The {name} has not been measured during training yet."
    base = history.scores[0] if history.scores[0][0] == 0 else None
    if base is None:
        return f"The {name} was not measured before training, so the gain is unknown."
    if best is None or not history.improves(best[1], base[1]):
        return f"The {name} is no better than before training: training has not helped yet."
    if last == best:
        return (
            f"The {name} is at its best at the last measurement: what is learned holds for rows "
            "that were not trained on. More steps may help."
        )
    return (
        f"The {name} was best at step {best[0]} ({figure(best[1])}); "
        "the weights of that step are kept."
    )


_LEAST_STEPS = 5
"""How many losses are compared with as many."""


def _trend(losses: Sequence[float], *, is_over: bool) -> str:
    """Compares the last fifth of the steps with the fifth before it, and with the first.

    By medians of five steps or more: the losses of single steps differ as their rows do.
    """
    verb = "was" if is_over else "is"
    part = max(_LEAST_STEPS, len(losses) // 5)
    if len(losses) < 2 * part:
        return "has no clear trend yet: there are too few steps"
    parts = (losses[:part], losses[-2 * part : -part], losses[-part:])
    first, middle, now = map(median, parts)
    if not _is_near(now, middle):
        return f"{verb} {'falling' if now < middle else 'rising'}"
    if _is_near(now, first):
        return f"{verb} steady"
    so_far = "fell" if now < first else "rose"
    return f"{so_far}, and {verb} steady {'at the end' if is_over else 'now'}"


def _is_near(value: float, other: float) -> bool:
    return abs(value - other) <= 0.02 * abs(other)


def _update(metrics: dict[str, object], event: Event) -> None:
    """Updates metrics by those of an event; null stands for a value that is not finite."""
    stated = event.get("metrics")
    for name, value in stated.items() if isinstance(stated, dict) else ():
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            metrics[name] = value


def _score(event: Event, decides: str) -> object:
    """Returns the value of the deciding metric in an evaluation, None without one."""
    metrics = event.get("metrics")
    if decides == "loss":
        return event.get("loss")
    return metrics.get(decides) if isinstance(metrics, dict) else None


def _put(points: list[Point], step: int, loss: object) -> bool:
    """Adds a point after all earlier steps; says whether there is a number to add."""
    while points and points[-1][0] >= step:
        points.pop()
    if not isinstance(loss, int | float) or not -MOST < loss < MOST:
        return False
    points.append((step, float(loss)))
    return True


def all_losses(*series: Iterable[Point]) -> list[float]:
    """Returns the losses of several curves together."""
    return [loss for points in series for _, loss in points]
