"""Parts of tasks share nothing."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.codes import raises
from tests.gym.experience.causal import task, tasks
from zoo.gym.data.records import Message
from zoo.gym.experience.learning.answers import Answer, Pairs
from zoo.gym.experience.learning.learn import batches
from zoo.gym.experience.learning.split import same_text, split_tasks, task_text
from zoo.gym.rewards.reward import Score, Task


def test_half_teaches_a_quarter_decides_and_a_quarter_tests() -> None:
    split = split_tasks(tasks(80, 0), 1)
    assert [len(part) for part in (split.train, split.gate, split.test)] == [40, 20, 20]
    assert split == split_tasks(tasks(80, 0)[::-1], 1)
    assert split != split_tasks(tasks(80, 0), 2)


def test_equal_texts_stay_together() -> None:
    split = split_tasks([task(0, n // 2) for n in range(80)], 1)
    parts = [{task_text(one) for one in part} for part in (split.train, split.gate, split.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 40


def spaced(one: Task, number: int) -> Task:
    """Returns the same task with more white space, and a wide character."""
    text = one.messages[-1].content
    turn = replace(one.messages[-1], content=text.replace(" ", " " * number, 1) + "\n" * number)
    return replace(one, messages=(*one.messages[:-1], turn))


def test_white_space_makes_no_other_task() -> None:
    mine = [spaced(one, number) for one in tasks(20, 0) for number in (1, 2, 3, 4)]
    assert len(split_tasks(mine, 1).gate) == 0  # twenty tasks are too few
    with raises("experience.shared_tasks", r"gate: expected .* got 80 ") as caught:
        split_tasks(tasks(20, 0), 1, mine)
    assert caught.value.code == "experience.shared_tasks"
    answers = [[Answer("a", Score(1.0, ""))]] * 80
    assert len(Pairs(mine, answers, answers).differences) == 20


def test_case_makes_no_other_task_but_another_digit_does() -> None:
    turn = Message("user", "How many bags of 3\u00b2 toys? Caf\u00e9")
    texts = [turn.content.upper(), turn.content.replace("\u00e9", "e\u0301"), "\n" + turn.content]
    same = [Task((replace(turn, content=text),)) for text in texts]
    assert {same_text(one) for one in same} == {same_text(Task((turn,)))}
    other = Task((replace(turn, content=turn.content.replace("\u00b2", "2")),))
    assert same_text(other) != same_text(Task((turn,)))


def test_files_of_their_own_take_the_place_of_shares() -> None:
    mine, gate, test = tasks(90, 0), tasks(10, 1000), tasks(10, 2000)
    both = split_tasks(mine, 1, gate, test)
    assert (len(both.train), len(both.gate), both.test) == (90, 10, test)
    assert {*map(same_text, both.gate)} == {*map(same_text, gate)}
    only_gate, only_test = split_tasks(mine, 1, gate), split_tasks(mine, 1, (), test)
    assert (len(only_gate.train), len(only_gate.test)) == (60, 30)
    assert (len(only_test.train), len(only_test.gate)) == (60, 30)


def test_a_sorted_gate_file_shows_all_kinds_in_its_first_third() -> None:
    gate = tuple(task(family, 1000 + n) for family in range(3) for n in range(20))
    first = split_tasks(tasks(40, 0), 1, gate).gate[:20]
    kinds = Counter(one.messages[-1].content.split()[1] for one in first)
    assert min(kinds[f"family-{family}"] for family in range(3)) > 2  # the file's first: 20, 0, 0
    assert split_tasks(tasks(40, 0), 1, gate[::-1]).gate[:20] == first
    assert split_tasks(tasks(40, 0), 2, gate).gate[:20] != first


@pytest.mark.parametrize("name", ["gate", "test"])
def test_a_task_in_two_parts_is_refused(name: str) -> None:
    parts = {name: (task(5, 5),)}
    with raises("experience.shared_tasks", f"{name}: expected tasks of their own, got 1"):
        split_tasks(tasks(80, 0), 1, **parts)


def test_few_tasks_all_teach_and_nothing_decides() -> None:
    split = split_tasks(tasks(39, 0), 1)
    assert [len(part) for part in (split.train, split.gate, split.test)] == [39, 0, 0]
    with raises("experience.no_tasks") as caught:
        split_tasks([], 1)
    assert caught.value.code == "experience.no_tasks"


def test_equal_texts_are_few_tasks() -> None:
    split = split_tasks([task(0, n % 39) for n in range(400)], 1)
    assert [len(part) for part in (split.train, split.gate, split.test)] == [400, 0, 0]


def test_a_step_has_a_hundred_tasks_at_most() -> None:
    assert [len(step) for step in batches(100, 2, 1)] == [100, 100]
    steps = batches(250, 2, 1)
    assert [len(step) for step in steps] == [84, 84, 82] * 2
    assert sorted(place for step in steps[:3] for place in step) == list(range(250))
    assert steps[:3] != steps[3:]
