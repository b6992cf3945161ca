"""`zoo-gym round` about lessons, from its terms to a library, by people with homes of their own."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.experience import store
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.measurement import Measurement, write_measurements
from zoo.gym.signing import OwnKey, own_key

Call = Callable[..., Any]

UNITS, SIGN, IDLE = "Check the units of each number.", "Check the sign at the end.", "Think twice."
SALES = "Round prices to whole cents at the end."
BY = {"ann": (UNITS, IDLE), "ben": (SIGN, SALES)}
GAINS = {UNITS: 0.2, SIGN: 0.1, IDLE: -0.05, SALES: 0.3}
"""What both gates measure of each lesson; of SALES one sees clear harm."""


class People:
    """Runs commands as one of several people.

    Attributes:
        gates: the keys of gates, as text.
    """

    def __init__(self, call: Call, homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._call, self._homes, self._monkeypatch = call, homes, monkeypatch
        self.gates = {who: str(self.key(who).public) for who in ("gus", "gil", "guy")}
        for who, texts in BY.items():
            self.at_home(who)
            items = tuple(Item(text, step=1, sources=("0" * 16,)) for text in texts)
            store.save("mine", Library(items, "m", evidence={"verdict": "proven"}))

    def at_home(self, who: str) -> None:
        self._monkeypatch.setenv("ZOO_GYM_HOME", str(self._homes / who))

    def key(self, who: str) -> OwnKey:
        self.at_home(who)
        return own_key()

    def __call__(self, who: str, *words: str, stdin: str = "") -> Any:
        self.at_home(who)
        return self._call(*words, stdin=stdin)


@pytest.fixture
def people(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> People:
    return People(call, tmp_path / "homes", monkeypatch)


def started(people: People, *more: str, place: str = "round") -> None:
    words = ["--kind", "experience", "--base", "m", "--out", place, "--min-contributors", "2"]
    for key in people.gates.values():
        words += ["--gate", key]
    found = people("maker", "round", "create", "tiny", *words, *more, "--json")
    assert (found.code, found.json["phase"], found.json["kind"]) == (0, "commit", "experience")


def revealed(people: People, place: str = "round") -> None:
    """Two contribute, and reveal."""
    for who in BY:
        found = people(who, "round", "contribute", "mine", "--round", place, "--send", "--json")
        assert found.json["receipt"].startswith("inbox/"), found.stderr
    assert people("maker", "round", "take", "--close", "--json").json["phase"] == "reveal"
    for who in BY:
        assert people(who, "round", "reveal", "--send", "--json").json["receipt"]
    assert people("maker", "round", "take", "--close", "--json").json["phase"] == "compute"


def figures(text: str, effect: float, model: str = "http://127.0.0.1:8000/v1#m") -> Measurement:
    """Returns a measurement whose interval is clear if the effect is beyond .15."""
    return Measurement(text, model, 24, effect, effect - 0.15, effect + 0.15)


def measured(people: People, who: str, found: Iterable[Measurement], place: str = "round") -> Any:
    write_measurements(Path(f"{who}.jsonl"), found, people.key(who))
    words = ("--measured", f"{who}.jsonl", "--round", place, "--send", "--json")
    return people(who, "round", "measure", *words)


def both_measured(people: People, place: str = "round") -> None:
    for who in ("gus", "gil"):
        seen = {**GAINS, SALES: -0.2} if who == "gil" else GAINS
        found = measured(people, who, [figures(*one) for one in seen.items()], place)
        assert (found.code, found.json["sent"], found.json["records"]) == (0, True, 4)


def published(people: People) -> Any:
    started(people)
    revealed(people)
    both_measured(people)
    found = people("maker", "round", "aggregate", "--json")
    assert found.code == 0, found.stderr
    return found.json


def test_a_round_of_lessons_ends_in_a_library_that_a_stranger_verifies(people: People) -> None:
    result = published(people)
    library = read_library(Path(result["result"]))[0]
    assert {item.text: item.evidence["effect"] for item in library.items} == {UNITS: 0.2, SIGN: 0.1}
    assert {item.evidence["keys"] for item in library.items} == {2}
    why = {one["id"]: one["why"] for one in result["lessons"]}
    assert why[Item(IDLE).id] == "a median effect of -0.050"
    assert why[Item(SALES).id] == f"harmful by the measurement of {people.gates['gil']}"

    found = people("eve", "round", "verify", "round", "--json")
    assert (found.code, found.json["passed"], found.json["recomputed"]) == (0, True, True)
    points = people("eve", "round", "rewards", "round", "--json").json
    ann, ben = (str(people.key(who).public) for who in BY)
    assert (points["rule"], points["rewards"]) == ("effect", {ann: 667, ben: 333})
