"""A step or an evaluation of a run in one line, for commands and for Python."""

from collections.abc import Mapping
from typing import Any

from zoo.gym.humanize import duration, figure
from zoo.gym.jobs.events import Event


def is_step(event: Event) -> bool:
    """Returns whether an event is an undamaged step event."""
    return event["kind"] == "step" and type(event.get("step")) is int


def step_line(event: Event) -> str:
    """Returns a step in one line: `step 120/330  loss 0.412  12,300 tokens/s  8 s left`."""
    parts = [f"step {event['step']}/{event.get('steps', '?')}", f"loss {figure(event.get('loss'))}"]
    parts += metric_words(event)
    if (speed := number(event, "tokens_per_s")) is not None:
        parts.append(f"{speed:,.0f} tokens/s")
    if left_s := number(event, "eta_s"):
        parts.append(f"{duration(left_s)} left")
    return "  ".join(parts)


def metric_words(event: Event) -> list[str]:
    """Returns the additional metrics of a step or an evaluation: `accuracy 0.75`, ..."""
    value = event.get("metrics")
    metrics: dict[str, Any] = value if isinstance(value, dict) else {}
    return [f"{name} {figure(value)}" for name, value in metrics.items() if _is_figure(value)]


def number(fields: Mapping[str, Any], key: str) -> float | None:
    """Returns a finite number among the fields, or None: a log may be damaged."""
    value = fields.get(key)
    if type(value) is not int and type(value) is not float:
        return None
    return value if abs(value) < 2**63 else None


def _is_figure(value: object) -> bool:
    return value is None or type(value) is int or type(value) is float
