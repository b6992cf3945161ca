"""Which prompts are asked: all in turn, but those whose answers have equal rewards rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.train.prompts import MOST_DRAWN, PromptQueue


def test_without_rewards_each_prompt_is_asked_once_an_epoch() -> None:
    queue = PromptQueue(12, seed=1)
    epochs = [[prompt for _ in range(3) for prompt in queue.draw(4)] for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 2
    assert epochs[0] != epochs[1]


def test_prompts_with_equal_rewards_rest_for_ever_more_epochs() -> None:
    queue = PromptQueue(4, seed=1)
    asked = [0]
    for _ in range(160):  # of four prompts, one never has a spread
        [prompt] = queue.draw(1)
        queue.measured([prompt], [prompt != 2])
        asked[-1] += 1
        if prompt == 2:
            asked.append(0)
    epochs = [round((others - 1) / 3) for others in asked[1:6]]
    assert epochs == [4, 7, 9, 9, 9]


def test_a_prompt_that_has_rested_and_teaches_is_asked_each_epoch_again() -> None:
    queue = PromptQueue(4, seed=1)
    queue.measured(queue.draw(4), [False] * 4)
    queue.measured(queue.draw(4), [True] * 4)
    assert sorted(queue.draw(4)) == [0, 1, 2, 3]


def test_all_are_asked_where_all_rest() -> None:
    queue = PromptQueue(40, seed=1)
    for _ in range(50):
        drawn = queue.draw(40)
        assert sorted(drawn) == list(range(40))
        queue.measured(drawn, [False] * 40)


def test_as_many_are_asked_as_give_the_missing_ones() -> None:
    queue = PromptQueue(100, seed=1)
    assert queue.wanted(16) == 16
    for _ in range(20):
        queue.measured([0, 1, 2, 3], [True, False, False, True])
    assert queue.wanted(16) == pytest.approx(32, abs=1)
    for _ in range(20):
        queue.measured([0, 1], [False, False])
    assert queue.wanted(16) == 16 * MOST_DRAWN


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2**12 - 1)), max_size=12),
)
def test_a_queue_goes_on_from_its_state(count: int, steps: list[tuple[int, int]]) -> None:
    queue = PromptQueue(count, seed=3)
    for size, bits in steps:
        resumed = PromptQueue(count, seed=3)
        resumed.restore(json.loads(json.dumps(queue.state())))
        drawn = queue.draw(size)
        assert resumed.draw(size) == drawn
        assert len(drawn) == size
        assert size > count or len(set(drawn)) == size
        queue.measured(drawn, [bool(bits >> place & 1) for place in range(size)])


@pytest.mark.parametrize("good", [1, 2, 3, 6, 20])
def test_prompts_that_teach_are_asked_at_least_as_often_as_others(good: int) -> None:
    queue, asked = PromptQueue(100, seed=1), [0] * 100
    for _ in range(500):
        drawn = queue.draw(8)
        for prompt in drawn:
            asked[prompt] += 1
        queue.measured(drawn, [prompt < good for prompt in drawn])
    assert min(asked[:good]) >= 0.9 * max(asked[good:])
