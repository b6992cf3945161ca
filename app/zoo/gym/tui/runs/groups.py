"""The sampled answers of a run by RL, as groups: the answers to one prompt at one step."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

TAIL_BYTES = 4_000_000
"""How much of the file is read, from its end on: the newest answers."""

Sample = dict[str, Any]

SORTS: dict[str, Callable[[Sample], float]] = {
    "advantage": lambda sample: -_number(sample.get("advantage")),
    "length": lambda sample: -_number(sample.get("tokens")),
    "reward": lambda sample: -_number(sample.get("reward")),
}
"""The orders of a group's answers, the highest first."""


@dataclass(frozen=True)
class Group:
    """The answers to one prompt at one step."""

    step: int
    prompt: str
    samples: tuple[Sample, ...]

    @property
    def is_flat(self) -> bool:
        """Whether all rewards are equal, so that nothing is learned from it."""
        return len({str(sample.get("reward")) for sample in self.samples}) < 2


def read_groups(path: Path) -> list[Group]:
    """Returns the newest groups, oldest first; lines that are damaged are left out.

    Raises:
        OSError: the file is there and cannot be read.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read().split(b"\n")
    samples = [sample for line in lines[size > TAIL_BYTES :] if (sample := _sample(line))]
    return [
        Group(key[0], key[2], tuple(group))
        for key, group in groupby(
            samples, lambda each: (each["step"], each.get("source"), each["prompt"])
        )
    ]


def _sample(line: bytes) -> Sample | None:
    try:
        sample: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(sample, dict) or not isinstance(sample.get("prompt"), str):
        return None
    return {"source": None, **sample} if isinstance(sample.get("step"), int) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("-inf")
