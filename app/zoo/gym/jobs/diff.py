"""Compares two runs: their settings, what they measured, their data and their base."""

from collections.abc import Mapping
from dataclasses import dataclass

from zoo.gym.files import read_json_object
from zoo.gym.jobs.listing import stored_yaml
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import reconcile

Pair = tuple[object, object]
"""A value of the first run and of the second; None where a run has none."""

_DATA = ("data", "tasks_sha256")
_BASE = ("base",)


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        settings: those that differ.
        figures: all that either run measured.
        same_data: whether the digests of their data are equal; None if one has none.
        same_base: the same of their base models.
        fault: what is wrong with a file of settings, which then counts as empty.
    """

    settings: Mapping[str, Pair]
    figures: Mapping[str, Pair]
    same_data: bool | None
    same_base: bool | None
    fault: str | None = None


def compare(first: Run, second: Run) -> Comparison:
    """Returns how two runs differ; the digests are those of the start of each run."""
    (own, own_fault), (other, other_fault) = stored_yaml(first), stored_yaml(second)
    first_env, second_env = (read_json_object(run.env_file) or {} for run in (first, second))
    figures = [reconcile(run).metrics or {} for run in (first, second)]
    return Comparison(
        settings=_pairs(own, other, only_other=True),
        figures=_pairs(figures[0], figures[1], only_other=False),
        same_data=_same(first_env, second_env, _DATA),
        same_base=_same(first_env, second_env, _BASE),
        fault=own_fault or other_fault,
    )


def _pairs(
    first: Mapping[str, object], second: Mapping[str, object], *, only_other: bool
) -> dict[str, Pair]:
    pairs = {key: (first.get(key), second.get(key)) for key in dict.fromkeys([*first, *second])}
    return {key: (a, b) for key, (a, b) in pairs.items() if not only_other or a != b}


def _same(
    first: Mapping[str, object], second: Mapping[str, object], keys: tuple[str, ...]
) -> bool | None:
    for key in keys:
        if first.get(key) and second.get(key):
            return first[key] == second[key]
    return None
