"""A full library makes room by itself, and only for what is better than what it holds."""

from dataclasses import replace

import pytest

from tests.gym.experience.causal import FAMILIES, TRUE, Follows, World, lesson, tasks
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.answers import Answers
from zoo.gym.experience.learning.propose import Proposed, Proposer
from zoo.gym.experience.learning.retire import MOST_RETIRED, most_calls, retire
from zoo.gym.experience.learning.split import task_text
from zoo.gym.experience.library import library as limits
from zoo.gym.experience.library.item import Item, task_hash
from zoo.gym.experience.library.library import Library

TASKS = tasks(48, 0)
SOURCES = [
    tuple(task_hash(task_text(one)) for one in TASKS if f"family-{f} " in task_text(one))
    for f in range(FAMILIES)
]
RULES = [
    Item(f"For family-{f} use strategy-{TRUE[f]}", sources=SOURCES[f]) for f in range(FAMILIES)
]
WRONG = [
    Item(f"For family-{f} use strategy-{(TRUE[f] + 1) % 5}", sources=SOURCES[f])
    for f in range(FAMILIES)
]


def answers_of(world: World) -> Answers:
    caller = Caller(Journal(), Budget(Cap()))
    return Answers(caller, Model("world", world), Follows())


def test_lessons_of_no_help_are_retired_and_the_others_stay() -> None:
    world = World()
    library = Library((*RULES[:3], *WRONG[3:6]))
    rest = retire(answers_of(world), library, TASKS, 0, lesson().sampling_train)
    assert {item.text for item in rest.items} >= {item.text for item in RULES[:3]}
    assert len(rest.items) < 6
    assert world.calls <= most_calls(len(TASKS), 6)


def test_few_are_retired_at_once_and_pinned_ones_never() -> None:
    library = Library(tuple(replace(item, pinned=n < 2) for n, item in enumerate(WRONG)))
    rest = retire(answers_of(World(mode="deaf")), library, TASKS, 0, lesson().sampling_train)
    assert len(rest.items) >= FAMILIES - MOST_RETIRED
    assert sum(item.pinned for item in rest.items) == 2


def test_a_lesson_is_left_out_on_the_tasks_that_it_is_from() -> None:
    world = World()
    sources = tuple(task_hash(task_text(task)) for task in TASKS[:2])
    library = Library((Item("Read with care.", sources=sources),))
    answers = answers_of(world)
    retire(answers, library, TASKS, 0, lesson().sampling_train)
    asked = {slot.split(" task ")[1].split()[0] for slot in answers.caller.journal.slots}
    assert {"0", "1"} <= asked
    assert len(asked) == 4


def proposed(monkeypatch: pytest.MonkeyPatch, most: int, held: list[Item]) -> Proposed:
    answers = answers_of(World())
    proposer = Proposer(answers, Model("teacher", World()), lesson(), TASKS)
    library = Library(tuple(held))
    monkeypatch.setattr(limits, "MOST_ITEMS", most)
    return proposer.propose(0, TASKS, library)


@pytest.mark.slow
def test_at_the_cap_what_is_useless_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = [Item(f"Read the task with care, and part {n} twice.") for n in range(4)]
    found = proposed(monkeypatch, 4, idle)
    assert found.counts["retired"] > 0
    assert any(item.text in {rule.text for rule in RULES} for item in found.library.items)
    assert len(found.library.items) <= 4


@pytest.mark.slow
def test_below_the_cap_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = proposed(monkeypatch, 48, [Item("Read the task with care.")])
    assert (found.made_room, found.counts["retired"]) == (False, 0)
