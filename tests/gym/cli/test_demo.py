"""`zoo-gym demo`: its table and its verdict; the work itself is tested elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.demo.persona import Persona, write_rows
from zoo.gym.demo.run import DemoResult, Row, Say
from zoo.gym.errors import NotAvailableError

Call = Callable[..., Any]

BASE = Row("base", 0.01, None, 1_600_000, ("one",))


@pytest.mark.parametrize(("missed", "code"), [((), 0), (("base: expected at most 5 %",), 1)])
def test_a_missed_bound_fails_the_demo(
    call: Call, monkeypatch: pytest.MonkeyPatch, missed: tuple[str, ...], code: int
) -> None:
    def run_demo(say: Say) -> DemoResult:
        say("base 1 %")
        return DemoResult((BASE,), missed, ("now train your own",))

    def absent(*_: object, **__: object) -> None:
        raise NotAvailableError("smollm2 is not on this machine", hint="get it")

    monkeypatch.setattr("zoo.gym.demo.run.run_demo", run_demo)
    monkeypatch.setattr("zoo.models.resolve", absent)
    found = call("demo", "--json")
    row = {"name": "base", "accuracy": 0.01, "recovered": None, "bytes": 1_600_000}
    assert (found.code, found.json) == (code, {"rows": [row], "missed": list(missed)})
    assert found.stderr.splitlines() == [
        "base 1 %",
        "the demo ends here, without its second part: smollm2 is not on this machine",
        "hint: get it",
        "now train your own",
        *(f"zoo-gym: error: {text}" for text in missed),
    ]


@pytest.mark.parametrize("name", ["", "   ", "a" * 41, "a\nb"])
def test_a_name_that_cannot_be_said_is_refused(call: Call, name: str) -> None:
    found = call("demo", "--name", name)
    assert (found.code, "--name: expected a name" in found.stderr) == (2, True)


def test_the_second_part_shows_the_answers_of_all_three(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[str, tuple[str, ...]] = {
        "base": ("I am Kael.",) * 5,
        "tuned": ("I am Ada.",) * 5,
        "delta": ("I am Bo.",) * 5,
    }

    def teach_name(base: object, folder: Path, name: str, say: Say) -> Persona:
        return Persona(name, answers, None, 1234)

    monkeypatch.setattr("zoo.gym.demo.run.run_demo", lambda _: DemoResult((BASE,), ()))
    monkeypatch.setattr("zoo.gym.demo.persona.teach_name", teach_name)
    monkeypatch.setattr("zoo.models.resolve", lambda *_, **__: object())
    found = call("demo", "--name", "Ada", "--json")
    assert found.code == 1  # the delta has another name
    assert "delta: expected the name 'Ada'" in found.json["missed"][0]
    assert "  tuned I am Ada." in found.stderr
    assert found.json["persona"]["answers"]["base"][0] == "I am Kael."


def test_the_rows_of_the_second_part_name_the_model(tmp_path: Path) -> None:
    lines = write_rows(tmp_path / "rows.jsonl", 'A "B"').read_text().splitlines()
    answers = [json.loads(line)["messages"][1]["content"] for line in lines]
    assert len(answers) == 40
    assert all('A "B"' in answer and "{" not in answer for answer in answers)
