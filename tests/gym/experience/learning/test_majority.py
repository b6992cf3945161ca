"""Labels of tasks without known answers: drawn once, without lessons, and marked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.experience.causal import World, lesson, tasks
from tests.gym.experience.conftest import ignore
from zoo.backends.sampling import Sampling
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.answers import Answers
from zoo.gym.experience.learning.learn import Learned, learn
from zoo.gym.experience.learning.majority import agreed, label_split
from zoo.gym.experience.learning.split import Split
from zoo.gym.rewards.loading import load


@pytest.mark.parametrize(
    ("texts", "label"),
    [
        (["The answer is 7.", "7", "8"], "7"),
        (["7", "8"], None),
        (["7", "7", "8", "8"], None),
        (["7"], None),
        (["Paris", " paris.", "Rome"], "Paris"),
        (["", "", ""], None),
        (["<think>endless", "7", "7", "7"], "7"),
    ],
)
def test_a_label_is_what_more_than_half_say(texts: list[str], label: str | None) -> None:
    assert agreed(texts) == label


class Steady(World):
    """Says the same of even items, and something else each time of odd ones."""

    def answer(self, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        even = int(messages[-1]["content"].rpartition("-")[2]) % 2 == 0
        return "steady" if even else f"said {seed}"


def answers_of(world: Any, tell: Callable[[str], None] = ignore) -> Answers:
    return Answers(Caller(Journal(), Budget(Cap()), tell=tell), Model("m", world), None)


HOW = Sampling(max_new_tokens=16, temperature=0.7)


def test_tasks_without_a_majority_are_left_out_and_this_is_said() -> None:
    sentences: list[str] = []
    split = Split(tasks(12, 0), tasks(6, 100), tasks(6, 200))
    found = label_split(split, answers_of(Steady(), sentences.append), 3, HOW)
    assert {task.answer for task in (*found.train, *found.gate, *found.test)} == {"steady"}
    assert (len(found.train), len(found.gate), len(found.test)) == (6, 3, 3)
    assert sentences == ["12 of 24 tasks are left out: most answers to them do not agree"]


def test_a_part_without_any_agreement_is_refused() -> None:
    odd = tuple(task for task in tasks(12, 0) if int(task.source[6:]) % 2)
    with raises("experience.no_majority") as caught:
        label_split(Split(tasks(12, 0), odd), answers_of(Steady()), 3, HOW)
    assert caught.value.code == "experience.no_majority"


def learned(world: World, **changes: Any) -> Learned:
    split = Split(tasks(24, 0), tasks(12, 1000), tasks(12, 9000))
    caller = Caller(Journal(), Budget(Cap()))
    model = Model("world", world)
    how = lesson(reward="majority", max_epochs=1, **changes)
    return learn(split, caller, model, model, load("answer", []), how)


@pytest.mark.slow
def test_what_is_learned_is_marked_and_the_same_again() -> None:
    first, second = learned(World()), learned(World())
    assert first.library == second.library
    assert first.test is None or first.library.evidence["labels"] == "majority"


@pytest.mark.slow
def test_labels_are_drawn_before_and_without_lessons() -> None:
    world = World()
    caller = Caller(Journal(), Budget(Cap()))
    model = Model("world", world)
    split = Split(tasks(24, 0))
    learn(split, caller, model, model, load("answer", []), lesson(reward="majority", max_epochs=1))
    phases = [slot.partition(" ")[0] for slot in caller.journal.slots]
    assert phases[: 24 * 5] == ["label"] * 24 * 5
    assert "label" not in phases[24 * 5 :]
