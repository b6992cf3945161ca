"""Words shared with a reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gym.rewards.conftest import sample, task
from zoo.gym.config.reward import SimilaritySettings
from zoo.gym.rewards import load
from zoo.gym.rewards.answers.similarity import Similarity, common_length

Words = st.lists(st.sampled_from("abcd"), max_size=12)


def plain_length(first: list[str], second: list[str]) -> int:
    """The textbook table."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            longer = max(table[i][j + 1], table[i + 1][j])
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else longer
    return table[-1][-1]


@pytest.mark.slow
@given(Words, Words)
def test_the_common_length_is_that_of_the_textbook(first: list[str], second: list[str]) -> None:
    assert common_length(first, second) == plain_length(first, second)


def value(response: str, answer: object = None, reference: str = "") -> float:
    return Similarity().score([sample(response, answer, reference=reference)])[0].value


def test_equal_texts_score_one_and_unrelated_ones_zero() -> None:
    assert value("<think>so</think>The cat sat.", reference="the cat SAT") == 1.0
    assert value("dogs", reference="the cat sat") == value("", reference="a") == 0.0


def test_order_counts() -> None:
    assert value("b a", reference="a b") == 0.5  # one word of two is common, in both


def test_the_nearest_of_several_answers_counts() -> None:
    assert value("a b", ["c", "a b"]) == 1.0


def test_a_row_may_be_compared_with_its_answer_beside_a_reference() -> None:
    samples = [sample("a b", "a b", reference="c")]
    to_answer = Similarity(SimilaritySettings(to="answer"))
    assert [each.score(samples)[0].value for each in (Similarity(), to_answer)] == [0.0, 1.0]
    assert to_answer.missing(task(reference="c")) == "no answer"


def test_long_texts_are_compared_quickly() -> None:
    text = " ".join(str(number % 977) for number in range(20_000))
    assert value(text, reference=text) == 1.0


def test_rows_with_references_alone_are_compared_by_similarity() -> None:
    with load("auto", [task(reference="a cat"), task(reference="a dog")]) as reward:
        assert reward.name == "similarity"
        assert "It is a weak reward" in reward.description
    assert Similarity().missing(task()) == "no reference output and no answer"
