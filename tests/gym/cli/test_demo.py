"""`zoo-gym demo`: its table and its verdict; the work itself is tested elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest

from zoo.gym.demo.run import DemoResult, Row, Say

Call = Callable[..., Any]

BASE = Row("base", 0.01, None, 1_600_000, ("one",))


@pytest.mark.parametrize(("missed", "code"), [((), 0), (("base: expected at most 5 %",), 1)])
def test_a_missed_bound_fails_the_demo(
    call: Call, monkeypatch: pytest.MonkeyPatch, missed: tuple[str, ...], code: int
) -> None:
    def run_demo(say: Say) -> DemoResult:
        say("base 1 %")
        return DemoResult((BASE,), missed)

    monkeypatch.setattr("zoo.gym.demo.run.run_demo", run_demo)
    found = call("demo", "--json")
    row = {"name": "base", "accuracy": 0.01, "recovered": None, "bytes": 1_600_000}
    assert (found.code, found.json) == (code, {"rows": [row], "missed": list(missed)})
    assert ["base 1 %", *(f"zoo-gym: error: {text}" for text in missed)] == (
        found.stderr.splitlines()
    )
