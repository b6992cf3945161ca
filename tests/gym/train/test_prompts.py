"""Which prompts are asked: all in turn, those with better and worse answers again first."""

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


def test_prompts_with_better_and_worse_answers_are_asked_again() -> None:
    queue = PromptQueue(100, seed=1)
    first = queue.draw(40)
    queue.measured(first, [place < 20 for place in range(40)])
    later = queue.draw(8)
    assert later[:5] == first[:5]  # a quarter of the 20, the others have their turn
    assert not set(later[5:]) & set(first)
    queue.measured(later[:5], [False] * 5)
    assert not set(queue.draw(8)) & set(first[:5])


def test_most_prompts_are_not_asked_again() -> None:
    queue = PromptQueue(1000, seed=1)
    first = queue.draw(100)
    queue.measured(first, [True] * 100)
    assert len(set(queue.draw(8)) & set(first)) == 6


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
