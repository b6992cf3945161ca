"""What learning must do, and what it must not, in a simulated world (see `causal`)."""

import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest

from bench import experience
from tests.gym.experience.causal import Follows, World, lesson, right, run, split_of, success
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.learn import Learned, learn
from zoo.gym.experience.learning.split import Split
from zoo.gym.rewards.reward import Sample, Score, no_reward


def runs(
    count: int, mode: str = "causal", poisoned: tuple[int, ...] = (), **changes: Any
) -> list[tuple[World, Learned]]:
    worlds = [World(mode, poisoned, salt) for salt in range(count)]
    return [(world, run(world, split_of(world.salt), **changes)) for world in worlds]


def kept(found: list[tuple[World, Learned]]) -> int:
    return sum(bool(learned.library.items) for _, learned in found)


def check_causal(found: list[tuple[World, Learned]]) -> None:
    """The bars of a world in which lessons cause success."""
    calls = fmean(world.calls for world, _ in found)
    levels = [success(world, learned.library) for world, learned in found]
    assert calls <= 1000
    assert fmean(levels) >= 0.89
    assert min(levels) >= 0.83


@pytest.mark.slow
def test_lessons_that_cause_success_are_learned() -> None:
    found = runs(2)
    check_causal(found)
    assert [right(learned.library) for _, learned in found] == [(12, 0)] * 2


def test_without_contrast_nothing_is_learned() -> None:
    found = runs(1, group_size=1)
    assert kept(found) == 0
    assert [world.calls for world, _ in found] == [144]  # 48 tasks, 3 times, and no teacher


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "most"), [("deaf", 1), ("generic", 0), ("poison", 0)])
def test_lessons_that_do_not_help_are_not_kept(mode: str, most: int) -> None:
    """The gate of one world of four is passed by luck, as at its level it sometimes must be."""
    assert kept(runs(4, mode)) <= most


@pytest.mark.slow
def test_wrong_rules_among_right_ones_are_left_out() -> None:
    found = runs(1, poisoned=(1, 5, 9))
    assert [right(learned.library) for _, learned in found] == [(9, 0)]
    assert fmean(success(world, learned.library) for world, learned in found) >= 0.65


@pytest.mark.slow
def test_answers_to_single_tasks_are_no_lessons() -> None:
    assert kept(runs(1, "leak")) == 0


@pytest.mark.slow
def test_a_gate_on_the_tasks_that_teach_would_keep_their_answers() -> None:
    world = World("leak")
    split = split_of()
    learned = run(world, Split(split.train, split.train))
    assert learned.library.items


@pytest.mark.slow
def test_broken_answers_of_the_teacher_change_nothing() -> None:
    clean, broken = World(), World(broken=0.4)
    texts = [
        {item.text for item in run(world, split_of()).library.items} for world in (clean, broken)
    ]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_only_a_test_proves_an_effect_with_its_interval() -> None:
    world = World()
    learned = run(world, split_of(test=48))
    assert learned.test is not None
    low, high = learned.test.interval
    assert learned.verdict == "proven"
    assert 0.5 < low < learned.test.effect < high < 0.95
    assert learned.library.evidence["verdict"] == "proven"
    assert run(World(), split_of()).verdict == "unproven"


@pytest.mark.slow
def test_without_a_gate_nothing_is_proven() -> None:
    split = split_of(test=48)
    learned = run(World(), Split(split.train[:24], (), split.test))
    assert learned.library.items
    assert (learned.verdict, learned.library.evidence["verdict"]) == ("unproven", "unproven")


class Moody(Follows):
    """Gives no reward for some tasks, in every answer or in some."""

    def __init__(self, bad: int, share: float = 1.0) -> None:
        self.bad, self.share, self.rng = bad, share, random.Random(1)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return [
            no_reward("moody") if self._is_bad(one) else score
            for one, score in zip(samples, super().score(samples), strict=True)
        ]

    def _is_bad(self, sample: Sample) -> bool:
        item = int(sample.task.source.partition(":")[2])
        return item % self.bad == 0 and self.rng.random() < self.share


@pytest.mark.slow
@pytest.mark.parametrize("reward", [Moody(4), Moody(1, 0.3)], ids=["some tasks", "some answers"])
def test_answers_without_a_reward_count_for_nothing(reward: Moody) -> None:
    caller = Caller(Journal(), Budget(Cap()))
    model = Model("world", World())
    found = learn(split_of(test=24), caller, model, model, reward, lesson())
    assert right(found.library)[0] >= 9
    assert found.test is not None
    assert found.test.effect > 0.5


class Counting(World):
    """Notes how many lessons a prompt has."""

    most: int = 0

    def answer(self, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        if messages[0]["role"] == "system" and len(messages) == 2:
            self.most = max(self.most, messages[0]["content"].count("\n- For family"))
        return super().answer(messages, seed)


@pytest.mark.slow
def test_a_prompt_has_the_lessons_nearest_to_its_task_at_most() -> None:
    world = Counting()
    found = run(world, split_of(test=24), top_k=6)
    assert world.most == 6 < len(found.library.items)
    assert found.library.evidence["top_k"] == 6
    assert found.test is not None
    assert found.test.learned > 0.7


@pytest.mark.slow
def test_twenty_worlds_reach_the_bars() -> None:
    check_causal(runs(20))


@pytest.mark.slow
def test_a_world_behind_a_server_reaches_the_bars_with_proof() -> None:
    cases = list(experience.causal(1))
    assert [case.name for case in cases if not case.keeps_its_bar()] == []
    assert [case.value for case in cases if case.name == "proven"] == [1]


@pytest.mark.nightly
def test_many_worlds_and_placebos_keep_the_bars() -> None:
    cases = list(experience.run())
    assert [case.name for case in cases if not case.keeps_its_bar()] == []
    assert sum(bool(case.bar) for case in cases) == 10


@pytest.mark.nightly
def test_poison_is_never_kept_and_does_not_hide_what_is_right() -> None:
    assert kept(runs(20, "poison")) == 0
    found = runs(20, poisoned=(1, 5, 9))
    assert sum(right(learned.library)[1] > 0 for _, learned in found) <= 1
    assert fmean(success(world, learned.library) for world, learned in found) >= 0.71
