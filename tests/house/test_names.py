"""Names say what they name: fillers such as `found` or `given` are rare."""

from tests.house.measure import filler_names

MOST_FILLERS = 0.01
"""Of all bound names; `python -m tests.house.measure` prints which there are."""


def test_fillers_are_rare() -> None:
    names, fillers = filler_names()
    assert sum(fillers.values()) <= MOST_FILLERS * names.total(), fillers
