"""Leaves cases of a long test to the night: continuous integration has thirty minutes."""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def one_in(step: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Returns the cases of a slow test; all but the first and each `step`th later run at night.

    A case of several parameters is a tuple.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.nightly] if number % step else [],
        )
        for number, case in enumerate(cases)
    ]
