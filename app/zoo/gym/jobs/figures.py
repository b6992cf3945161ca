"""The figures of a run by step, from its events: what trackers get, and what is plotted."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zoo.gym.jobs.events import Event

_OF_STEPS = {
    "loss": "train/loss",
    "lr": "train/learning_rate",
    "grad_norm": "train/grad_norm",
    "tokens": "train/tokens",
    "tokens_per_s": "train/tokens_per_s",
}
_OF_EVALUATIONS = {"loss": "eval/loss"}


@dataclass(frozen=True)
class Figures:
    """The figures of one step or evaluation.

    Attributes:
        step: the step; 0 is before training.
        time: when it was written, unix seconds.
        values: by name: `train/loss`, `train/learning_rate`, `eval/loss`, ..., and the method's
            own metrics under the same heads.
    """

    step: int
    time: float
    values: Mapping[str, float]


def figures_of(event: Event) -> Figures | None:
    """Returns the figures of an event, None if it has none; those that are no number are absent."""
    names = {"step": _OF_STEPS, "eval": _OF_EVALUATIONS}.get(event["kind"])
    if names is None:
        return None
    head = "train" if event["kind"] == "step" else "eval"
    named = {name: event.get(key) for key, name in names.items()}
    named |= {f"{head}/{key}": value for key, value in event.get("metrics", {}).items()}
    values = {
        name: float(value)
        for name, value in named.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return Figures(event["step"], event["t"], values) if values else None


def figures_in(events: Iterable[Event]) -> list[Figures]:
    """Returns the figures of a log in the order of steps, each step and evaluation once.

    A run that was killed trains the steps after its checkpoint again: those before are replaced.
    """
    kept: list[Figures] = []
    last = 0
    for event in events:
        figures = figures_of(event)
        if figures is None:
            continue
        if event["kind"] == "step":
            if figures.step <= last:
                kept = [each for each in kept if each.step < figures.step]
            last = figures.step
        elif any(_same(each, figures) for each in kept):
            continue  # the evaluation before training, or at a checkpoint, once more
        kept.append(figures)
    return kept


def _same(first: Figures, second: Figures) -> bool:
    return first.step == second.step and first.values.keys() == second.values.keys()


def series(figures: Iterable[Figures]) -> dict[str, list[tuple[int, float]]]:
    """Returns the points of each figure: step and value."""
    points: dict[str, list[tuple[int, float]]] = {}
    for each in figures:
        for name, value in each.values.items():
            points.setdefault(name, []).append((each.step, value))
    return points


def csv_lines(figures: Iterable[Figures]) -> Iterator[str]:
    """Yields a table: a line a step, a column a figure; cells without a figure are empty."""
    rows: dict[int, dict[str, float]] = {}
    for each in figures:
        rows.setdefault(each.step, {}).update(each.values)
    names = sorted({name for row in rows.values() for name in row})
    yield ",".join(["step", *map(_cell, names)])
    for step, row in sorted(rows.items()):
        values = (repr(row[name]) if name in row else "" for name in names)
        yield ",".join([str(step), *values])


def _cell(name: str) -> str:
    """Returns a name as a cell of CSV."""
    return f'"{name.replace(chr(34), chr(34) * 2)}"' if set(name) & set(',"\r\n') else name
