"""What differs between answers, and the votes on them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.refusals import wilson
from zoo.gym.tui.chat.compare import (
    FEWEST_VOTES,
    Score,
    add_vote,
    differing,
    effect_sentence,
    interval,
    read_score,
    votes_file,
)

LABELS = {"m": "base", "m:r1": "r1"}


def marked(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_words_that_only_one_answer_has_are_marked_in_it() -> None:
    first, second = "The red ball, bounces.", "The ball bounces twice."
    in_first, in_second = differing(first, second)
    assert marked(first, in_first) == ["red", ","]
    assert marked(second, in_second) == ["twice"]


def test_white_space_alone_marks_nothing() -> None:
    assert differing("a  b\nc", "a b c") == ([], [])


@given(st.text(alphabet="ab .", max_size=30), st.text(alphabet="ab .", max_size=30))
def test_without_the_marked_parts_both_answers_are_equal(first: str, second: str) -> None:
    def rest(text: str, spans: list[tuple[int, int]]) -> str:
        for start, end in reversed(spans):
            text = text[:start] + " " + text[end:]
        return "".join(text.split())

    in_first, in_second = differing(first, second)
    assert rest(first, in_first) == rest(second, in_second)


def test_equal_answers_to_all_prompts_are_called_no_effect() -> None:
    sentence = effect_sentence("r1", "base", [("x", "x")] * 3, "adapter")
    assert sentence == "r1 equals base on 3 of 3 prompts: this adapter has no effect on them"


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([("x", "x"), ("x", "y")], "r1 equals base on 1 of 2 prompts"),
        ([("x", "y")], ""),
        ([], ""),
        ([("x", "x")], "r1 equals base on 1 of 1 prompt: this delta has no effect on it"),
    ],
)
def test_one_other_answer_is_an_effect(pairs: list[tuple[str, str]], sentence: str) -> None:
    assert effect_sentence("r1", "base", pairs, "delta") == sentence


def test_a_vote_is_kept_for_the_pair_in_either_order(tmp_path: Path, home: Path) -> None:
    add_vote("m:r1", "m", "m:r1")
    add_vote("m", "m:r1", "m")
    add_vote("m", "other", None)
    score = add_vote("m", "m:r1", "m:r1")
    assert score == Score(("m", "m:r1"), (1, 2), 0) == read_score("m:r1", "m")
    assert read_score("other", "m") == Score(("m", "other"), (0, 0), 1)
    assert [path.name for path in votes_file().parent.iterdir()] == ["votes.json"]


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"pairs": 1}', '{"pairs": [{"models": ["m", "m:r1"], "votes": [-1, 0]}, 3]}'],
)
def test_a_damaged_file_of_votes_is_not_replaced(home: Path, content: str) -> None:
    votes_file().parent.mkdir(parents=True)
    votes_file().write_text(content)
    with raises("tui.damaged_votes"):
        add_vote("m", "m:r1", None)
    assert votes_file().read_text() == content


def test_few_votes_say_nothing_and_many_say_who() -> None:
    few = Score(("m", "m:r1"), (0, FEWEST_VOTES - 1), 1).words(LABELS)
    assert few == "r1 5, base 0, 1 tie: too few votes to say"
    # 4 of 6: the interval contains one half
    assert "too few votes to say, 67% for base" in Score(("m", "m:r1"), (4, 2)).words(LABELS)
    many = Score(("m", "m:r1"), (1, 9)).words(LABELS)
    low, high = wilson(9, 10)
    assert low > 0.5
    assert (
        many == f"r1 9, base 1: r1 is preferred, 90% for r1 (95 % interval {low:.0%} to {high:.0%})"
    )
    assert interval(9, 10) == (low, high)
