"""The page of commands names the fields of the JSON of rounds of lessons."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.gym.cli.test_lesson_rounds import (
    GAINS,
    SALES,
    UNITS,
    People,
    figures,
    measured,
    people,
    revealed,
    started,
)

__all__ = ["people"]  # a fixture

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def named(command: str) -> tuple[list[str], list[str]]:
    """Returns the fields in the object of a row, and those that its text names besides."""
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in rows if line.startswith(f"| `{command}` of lessons |")]
    contract = row.split("|")[2]
    contract = contract.replace('[{"contributor", "reason"}]', "")  # none is refused here
    return re.findall(r'"(\w+)"', contract.split("`; ")[0]), re.findall(r"`(\w+)`", contract)


def fields(value: Any) -> list[str]:
    """Returns the names of all fields, those of lists by their first object, in order."""
    if isinstance(value, list):
        return fields(value[0]) if value else []
    if not isinstance(value, dict):
        return []
    return [name for key, one in value.items() for name in (key, *fields(one))]


@pytest.mark.slow
def test_the_page_names_the_fields_of_rounds_of_lessons(people: People) -> None:
    started(people)
    revealed(people)
    found = measured(people, "gus", [figures(*one) for one in GAINS.items()])
    told = named("round measure")[0]  # what one lesson has is tested where a model measures
    assert [*told[:5], told[-1]] == fields(found.json)
    measured(people, "gil", [figures(UNITS, 0.2), figures(SALES, -0.2)])
    found = people("maker", "round", "aggregate", "--force", "--json")
    assert named("round aggregate")[0] == fields(found.json)
    applied = people("eve", "round", "apply", "round", "--json").json
    listed = people("eve", "experience", "list", "--json").json["libraries"][0]
    more = [key for key in applied if key not in listed]
    assert named("round apply")[1] == ["versions", *more]
