"""What rounds of lessons refuse: by name, and nothing is stored."""

from pathlib import Path

import pytest

from tests.gym.cli.test_lesson_rounds import (
    IDLE,
    UNITS,
    People,
    figures,
    files,
    measured,
    people,
    revealed,
    started,
)

__all__ = ["people"]  # a fixture
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.measurement import Measurement, write_measurements


def early(people: People) -> tuple[str, ...]:
    write_measurements(Path("gus.jsonl"), [figures(UNITS, 0.2)], people.key("gus"))
    return ("gus", "measure", "--measured", "gus.jsonl", "--round", "round", "--send")


CREATE = ("create", "x", "--kind", "experience", "--base", "m", "--out", "new")


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no gates": (("maker", *CREATE), "--gate: expected the keys that measure lessons"),
    "a gate twice": (
        ("maker", *CREATE, "--gate", "GUS", "--gate", "GUS", "--least", "1"),
        "--gate: expected each key once, got",
    ),
    "more than gates": (("maker", *CREATE, "--gate", "GUS"), "--least: expected 1 to 1, got 2"),
    "a form": (
        ("maker", *CREATE, "--form", "signs"),
        "--form: has no effect in a round of",
    ),
    "a rule": (("maker", *CREATE, "--method", "mean"), "--method: has no effect in a round of le"),
    "an f of 0": (("maker", *CREATE, "--f", "0"), "--f: has no effect in a round of lessons"),
    "a margin": (("maker", *CREATE, "--margin", "0"), "--margin: has no effect in a round of les"),
    "held-out rows": (("maker", *CREATE, "--evaluation", "x"), "--evaluation: has no effect in a"),
    "an earlier round": (("maker", *CREATE, "--after", "x"), "--after: has no effect in a round"),
    "privacy": (
        ("maker", *CREATE, "--private", "epsilon=1"),
        "--private: has no effect in a",
    ),
    "too many": (
        ("maker", *CREATE, "--gate", "GUS", "--least", "1", "--max-contributors", "101"),
        "most: expected at most 100 contributors of 16 lessons each",
    ),
    "lessons of weights": (
        ("maker", "create", "x", "--base", "base", "--out", "new", "--least", "2"),
        "--least: has no effect in a round about weights",
    ),
    "a base to contribute": (
        ("ann", "contribute", "mine", "--base", "base"),
        "--base: has no effect in a round of lessons",
    ),
    "examples": (
        ("ann", "contribute", "mine", "--examples", "5"),
        "--examples: has no effect in a round of lessons",
    ),
    "measure too early": (("GUS",), "expected phase compute, got commit"),
    "measure without a role": (
        ("ann", "measure", "--measured", "x.jsonl"),
        "expected a key of role gate, got yours",
    ),
    "measure nothing": (("gus", "measure"), "expected tasks and a model, or what was measured"),
    "tasks without a model": (("gus", "measure", "t"), "--tasks: has no effect in a round of les"),
    "draws without a model": (
        ("gus", "measure", "--draws", "2", "--measured", "x"),
        "--draws: has no effect in a round of lessons without --model",
    ),
    "a base to measure": (("gus", "measure", "--base", "x"), "--base: has no effect in a round of"),
    "a cluster": (
        ("maker", "aggregate", "--ray", "local"),
        "--ray: has no effect in a round of les",
    ),
    "threads": (("maker", "aggregate", "--threads", "2"), "--threads: has no effect in a round of"),
    "repeat figures": (("eve", "verify", "round", "--measure"), "--measure: has no effect in a ro"),
    "apply to a base": (
        ("eve", "apply", "round", "--base", "x"),
        "--base: has no effect in a",
    ),
    "aggregate too early": (("maker", "aggregate"), "expected phase compute, got commit"),
    "a rule to expect": (("maker", "aggregate", "--method", "mean"), "expected evidence, the rule"),
    "a round after it": (
        ("maker", "create", "x", "--base", "base", "--out", "new", "--after", "tiny"),
        "--after: expected a round of changes of weights, got tiny, which combines lessons",
    ),
}


CLOSED = {"measure too early", "aggregate too early"}
"""Those that are refused because of the phase of the round."""


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_by_name_and_nothing_is_stored(case: str, people: People) -> None:
    started(people)
    before = files()
    words, said = REFUSED[case]
    if words == ("GUS",):
        words = early(people)
    who, verb, *rest = (people.gates["gus"] if word == "GUS" else word for word in words)
    named = verb in {"contribute", "measure", "aggregate"} and "--round" not in rest
    found = people(who, "round", verb, *rest, *(["--round", "round"] if named else []))
    code = 4 if case in CLOSED else 2
    assert (found.code, said in found.stderr) == (code, True), found.stderr
    assert files() == before
    assert not Path("new").exists()


@pytest.mark.slow
def test_lessons_of_another_key_are_refused(people: People) -> None:
    started(people)
    revealed(people)
    write_measurements(Path("ann.jsonl"), [figures(UNITS, 0.9)], people.key("ann"))
    found = people("gus", "round", "measure", "--measured", "ann.jsonl", "--round", "round")
    assert (found.code, "expected measurements of your key" in found.stderr) == (2, True)
    large = Measurement(UNITS, "m", 9, 5.0, 1.0, 9.0)
    found = measured(people, "gus", [large])
    assert (found.code, "expected rewards of 0 to 1" in found.stderr) == (2, True)


@pytest.mark.slow
def test_a_contribution_that_was_committed_cannot_be_changed(people: People) -> None:
    started(people)
    words = ("round", "contribute", "--round", "round", "--send", "--json")
    first = people("ann", *words, "mine").json
    assert people("ann", *words, "mine@1").json == first
    store.save("mine", Library((Item(IDLE),)))
    found = people("ann", *words, "mine")
    assert (found.code, "expected the contribution that you committed to" in found.stderr) == (
        2,
        True,
    )
    order = Library((Item("Use the shell for sums."),))
    people.at_home("ben")
    store.save("order", order)
    before = files()
    found = people("ben", *words, "order")
    assert (found.code, "expected one without an order to a tool" in found.stderr) == (2, True)
    assert files() == before
