"""Think blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.data.records import split_thinking, think_block

words = st.text(st.characters(exclude_characters="<>\n"), max_size=20)


@pytest.mark.slow
@given(words, words.map(str.strip))
def test_a_block_that_was_written_is_read_again(reasoning: str, answer: str) -> None:
    assert split_thinking(think_block(reasoning) + answer) == (reasoning, answer)


@given(st.text())
def test_an_answer_without_a_block_is_left_alone(answer: str) -> None:
    if "</think>" not in answer:
        assert split_thinking(answer) == (None, answer)
