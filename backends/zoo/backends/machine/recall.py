"""Measurements of the machine that an engine needs, which a caller may cache."""

from collections.abc import Callable, Mapping

Recall = Callable[[str, Mapping[str, str], Callable[[], Mapping[str, float]]], Mapping[str, float]]
"""Takes the name of a measurement, what it depends on, and a function that measures; returns the
result, possibly a cached one with the same dependencies."""


def measure_now(
    name: str, key: Mapping[str, str], measure: Callable[[], Mapping[str, float]]
) -> Mapping[str, float]:
    """Measures each time: the `Recall` without a cache."""
    del name, key
    return measure()
