"""Leaves cases of a long test to the night: continuous integration has thirty minutes."""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def one_in(step: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Returns the cases of one parameter; all but the first and each `step`th later run at night.

    The test itself is marked as slow.
    """
    return [
        pytest.param(case, marks=[pytest.mark.nightly] if number % step else [])
        for number, case in enumerate(cases)
    ]
