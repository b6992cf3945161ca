"""Commands that leave the lessons of a library as they are keep what was measured of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.gym.experience.causal import FAMILIES, TRUE
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.measurement import Measurement, write_measurements
from zoo.gym.signing import own_key

pytestmark = pytest.mark.usefixtures("near")

RULES = tuple(Item(f"For family-{f} use strategy-{TRUE[f]}", step=1) for f in range(FAMILIES))
PROVEN = {"verdict": "proven", "effect": 0.5, "low": 0.4, "high": 0.6}
LIBRARY = Library(RULES[:2], "m", evidence=PROVEN)


@pytest.mark.slow
def test_a_prune_that_drops_nothing_stores_nothing(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    store.save("some", LIBRARY)
    words = ("--model", served.model, "--reward", "exact", "--max-new-tokens", "16", "--near", "2")
    result = call("experience", "prune", "some", tasks, *words, "--json")
    assert (result.code, result.json["lessons"]) == (0, 2), result.stderr
    assert "nothing was dropped: some@1 stays as it is" in result.stderr
    assert (store.versions("some"), store.load("some").library) == ([1], LIBRARY)


def test_a_strangers_file_with_the_same_lessons_keeps_evidence(call: Call) -> None:
    store.save("some", LIBRARY)
    theirs = tuple(Item(item.text) for item in RULES[:2])
    write_library(Path("theirs.json"), Library(theirs, "other"))
    told = call("experience", "import", "theirs.json", "--name", "some", "--json")
    assert (told.code, told.json["version"], told.json["evidence"]) == (0, 1, PROVEN)


def test_keeping_all_lessons_keeps_the_evidence(call: Call) -> None:
    store.save("some", LIBRARY)
    records = [Measurement(item.text, "m", 12, 0.5, 0.4, 0.6) for item in RULES[:2]]
    write_measurements(Path("me.jsonl"), records, own_key())
    told = call("experience", "keep", "some", "me.jsonl", "--least", "1", "--json")
    assert (told.code, told.json["kept"], told.json["evidence"]) == (0, 2, PROVEN)
    write_measurements(Path("one.jsonl"), records[:1], own_key())
    told = call("experience", "keep", "some", "one.jsonl", "--least", "1", "--json")
    assert (told.json["kept"], told.json["evidence"]) == (1, {})


def test_a_repeated_pin_makes_no_version_after_a_rollback(call: Call) -> None:
    pinned = replace(RULES[0], pinned=True)
    store.save("some", Library((pinned, RULES[1]), evidence=PROVEN))
    store.save("some", Library(RULES[:1]))
    call("experience", "rollback", "some", "1")
    result = call("experience", "pin", "some", pinned.id, "--json")
    assert (result.json["version"], store.versions("some")) == (1, [1, 2])


def test_a_lesson_is_shown_with_its_probe(call: Call) -> None:
    probe = {"probe_without": 0.2, "probe_with": 1.0, "gain": 0.25, "tasks": 8}
    store.save("some", Library((replace(RULES[0], better=1, worse=4, evidence=probe),)))
    result = call("experience", "show", "some").stdout
    assert "learned from a group with 1 better and 4 worse answers" in result
    assert "probe: mean reward 0.20 without it, 1.00 with it" in result
    assert "prune: +25.0 points with it, on 8 tasks near it" in result
