"""What is compared: answers in pairs, one difference a text, and no look that ends too early."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.gym.experience.causal import lesson, task, tasks
from zoo.backends.sampling import Sampling
from zoo.gym.experience.calls.journal import Phase, Slot
from zoo.gym.experience.learning.answers import Answer, Pairs
from zoo.gym.experience.learning.gate import Gate
from zoo.gym.experience.learning.learn import compared
from zoo.gym.experience.learning.propose import Proposer
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Score, Task, no_reward

HOW = Sampling(max_new_tokens=4)
LESSON = Library((Item("Count twice."),))


def answers(*rewards: float | None) -> list[Answer]:
    return [Answer("a", no_reward("no") if one is None else Score(one, "")) for one in rewards]


class Rewarded:
    """Draws answers with given rewards.

    Args:
        reward: gets the place of the call and the lessons.
    """

    def __init__(self, reward: Callable[[Any, Library], float]) -> None:
        self.reward = reward
        self.model = self
        self.name = "m"

    def draw(
        self,
        slot: tuple[Phase, int, int],
        tasks: Mapping[int, Task],
        draws: int,
        library: Library,
        _: object,
    ) -> list[list[Answer]]:
        return [
            answers(*(self.reward(Slot(*slot, n, draw), library) for draw in range(draws)))
            for n in tasks
        ]


def test_a_pair_with_an_unscored_answer_is_left_out_and_counted() -> None:
    base, learned = [answers(0, 1), answers(0, 0)], [answers(None, 1), answers(None, None)]
    pairs = Pairs([task(0, 1), task(0, 2)], base, learned)
    assert pairs.differences == [0.0]  # the bad answer without the lessons counts no more
    assert pairs.unscored == (0, 3)


def test_equal_texts_are_one_difference() -> None:
    base, learned = [answers(0)] * 4, [answers(reward) for reward in (1, 1, 0.4, 1)]
    pairs = Pairs([task(0, 1)] * 3 + [task(0, 2)], base, learned)
    assert pairs.differences == [pytest.approx(0.8), 1.0]


def test_a_library_whose_answers_lack_more_rewards_is_not_proven() -> None:
    gains = [(0.0, 1.0)] * 30
    assert [compared(gains, 9, (2, bad)).verdict for bad in (2, 3)] == ["proven", "unproven"]
    assert compared(gains, 9, (2, 3)).as_evidence()["unscored_learned"] == 3


def test_few_tasks_prove_nothing_and_have_no_bounds() -> None:
    found = compared([(0.0, 1.0)] * 5, 9)
    assert (found.verdict, found.interval) == ("unproven", (-math.inf, math.inf))
    assert "low" not in found.as_evidence()


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_bad_start_ends_a_gate_only_if_no_gain_could_follow(scale: float) -> None:
    def late(slot: Any, library: Library) -> float:
        gain = 1.0 if slot.task >= 16 else 0.5 if slot.task % 2 else -0.8
        return scale * gain * bool(library.items)

    def never(slot: Any, library: Library) -> float:
        return scale * (0.5 if slot.task % 2 else -0.6) * bool(library.items)

    for reward, verdict in ((late, "accepted"), (never, "rejected")):
        drawn: Any = Rewarded(reward)
        found = Gate(drawn, tasks(48, 0), 1, HOW, 1).compare(0, Library(), LESSON)
        assert (found.verdict, found.looks) == (verdict, 2)


class Teaching(Proposer):
    """Proposes two lessons for each group."""

    def _ask(self, *_: object) -> Sequence[Mapping[str, object]]:
        return [{"op": "add", "text": text} for text in ("Count twice.", "Be quick.")]


@pytest.mark.parametrize(("second", "kept"), [(0.6, 1), (0.9, 2)])
def test_a_second_edit_must_add_to_the_first(second: float, kept: int) -> None:
    def reward(slot: Any, library: Library) -> float:
        if slot.phase == "rollout":
            return float(slot.draw % 2)
        return {1: 0.8, 2: second}[len(library.items)]

    drawn: Any = Rewarded(reward)
    teacher: Any = None
    made = Teaching(drawn, teacher, lesson(group_size=4)).propose(0, tasks(1, 0), Library())
    assert len(made.library.items) == kept


def test_a_gain_that_is_rounded_to_0_is_not_proven() -> None:
    tested = compared([(0.0, 1e-8)] * 8, 9)
    assert (tested.verdict, tested.interval) == ("unproven", (0.0, 0.0))


def test_the_interval_of_large_equal_gains_contains_them() -> None:
    tested = compared([(-1e14 / 3, 1e15 / 7)] * 9, 9)
    assert tested.interval[0] <= tested.effect <= tested.interval[1]
