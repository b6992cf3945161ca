"""Lessons in a conversation with a model of this machine."""

import os
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.use import lessons_of
from zoo.gym.jobs import create_run
from zoo.gym.tuned.runs import result_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    evidence = {"verdict": "proven", "effect": 0.2, "low": 0.1, "high": 0.3}
    store.save("proven", Library((Item("One."), Item("Two.")), "m", evidence=evidence))
    store.save("other", Library((Item("Two."), Item("Three.")), "n"))
    store.save("long", Library(tuple(Item(f"Lesson {n}.") for n in range(47)), "m"))


def test_a_proven_library_of_the_same_model_needs_no_word() -> None:
    found = lessons_of("proven", "m")
    assert (len(found.library.items), found.notices) == (2, [])
    assert found.text == found.library.text


def test_what_was_measured_without_known_answers_is_said() -> None:
    evidence = {"verdict": "proven", "effect": 0.2, "low": 0.1, "high": 0.3, "labels": "judge"}
    store.save("judged", Library((Item("One."),), "m", evidence=evidence))
    result = ["judged: these lessons were measured by judge, not by known answers"]
    assert lessons_of("judged", "m").notices == result


def test_several_libraries_are_one_with_each_lesson_once() -> None:
    found = lessons_of("proven, other", "m")
    assert sorted(item.text for item in found.library.items) == ["One.", "Three.", "Two."]
    assert [line.partition(":")[0] for line in found.notices] == ["other"] * 3


def test_the_nearest_lessons_are_read_if_measured_or_asked_for() -> None:
    texts = ("Add the numbers.", "Draw a map of the snow.", "Name each colour.")
    evidence = {"verdict": "proven", "effect": 0.2, "low": 0.1, "high": 0.3, "top_k": 1}
    store.save("near", Library(tuple(map(Item, texts)), "m", evidence=evidence))
    found = lessons_of("near", "m")
    assert (found.top_k, found.notices) == (1, [])
    assert found.nearest("which numbers?").splitlines()[1:] == ["- Add the numbers."]
    assert callable(found.text)
    assert len(lessons_of("near", "m", 2).nearest("a map of numbers").splitlines()) == 3
    assert "measured with the nearest 1 in a prompt: the nearest 2" in str(
        lessons_of("near", "m", 2).notices
    )
    told: list[str] = []
    lessons_of("near", "m", 1, told.append).nearest("qqqq")
    assert told == ["no lesson shares a word with it: the prompt has the first 1 by their ids"]
    both = lessons_of("near,proven", "m")
    assert (both.top_k, "all are now" in str(both.notices)) == (None, True)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["", " , ", "long,proven"])
def test_nothing_and_too_much_are_refused(given: str) -> None:
    with pytest.raises(InputError, match=r"experience: |together: "):
        lessons_of(given, "m")
    with raises("experience.no_library") as caught:
        lessons_of("absent", "m")
    assert caught.value.code == "experience.no_library"


def test_a_run_of_lessons_has_no_weights_to_chat_with() -> None:
    run = create_run("stage: experience\n", {"kind": "experience"})
    run.result.mkdir()
    with raises("tuned.run_of_lessons"):
        result_of(run)


def test_two_runs_that_end_together_store_two_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Library((Item(text),)) for text in ("Count twice.", "Be quick."))
    store.save("rules", first)
    link = os.link
    calls: list[object] = []

    def late(own: Path, path: Path) -> None:
        calls.append(path)
        link(own, path if len(calls) > 1 else path.with_name("0001.json"))

    monkeypatch.setattr(os, "link", late)
    assert store.save("rules", second).version == 2
    assert [store.load("rules", number).library for number in (1, 2)] == [first, second]
    assert len(calls) == 2
