"""Regular expressions, also those that never end."""

import time
from collections.abc import Iterator

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from zoo.gym.rewards import Reward, load

ENDLESS = r"(?:a+)+b"


@pytest.fixture(scope="module")
def group() -> Iterator[Reward]:
    with load({"kind": "regex", "pattern": r"ANSWER: (\S+)"}, []) as reward:
        yield reward


@pytest.mark.parametrize(
    ("response", "answer", "value"),
    [
        ("### ANSWER: 5 ###", "5.0", 1.0),
        ("ANSWER: 4 no, ANSWER: 5", "5", 1.0),
        ("ANSWER: c", "C", 1.0),
        ("ANSWER: 4", "5", 0.0),
        ("5", "5", 0.0),
    ],
)
def test_a_group_is_compared_with_the_answer(
    group: Reward, response: str, answer: str, value: float
) -> None:
    assert group.score([sample(response, answer)])[0].value == value


def test_a_group_named_answer_is_preferred() -> None:
    spec = {"kind": "regex", "pattern": r"(x)?=(?P<answer>\d+)"}
    with load(spec, []) as reward:
        assert reward.score([sample("x=5", "5")])[0].value == 1.0


def test_without_a_group_any_match_counts() -> None:
    with load({"kind": "regex", "pattern": r"(?i)thanks"}, [task()]) as reward:
        scores = reward.score([sample("Thanks!"), sample("no")])
    assert [score.value for score in scores] == [1.0, 0.0]


def test_a_group_needs_rows_with_answers() -> None:
    with raises("rewards.missing_column", "no answer"):
        load({"kind": "regex", "pattern": "(a)"}, [task()])


@pytest.mark.slow
def test_a_search_without_an_end_costs_its_own_row_only() -> None:
    since = time.monotonic()
    with load({"kind": "regex", "pattern": ENDLESS, "timeout_s": 4}, []) as reward:
        scores = reward.score([sample("ab"), sample("a" * 60), sample("aab")])
    assert [score.failed for score in scores] == [False, True, False]
    assert scores[1].reason == "no result within 4 s"
    assert time.monotonic() - since < 60


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("regex", "reward: regex: pattern: not given"),
        (
            {"kind": "regex", "pattern": "("},
            "reward: regex: pattern: not a regular expression: missing ), unterminated subpattern",
        ),
        ("length", "reward: length: most: not given"),
        (
            {"length": {"most": 3, "margin": 4}},
            "reward: length: margin: expected at most 3, as most is, got 4",
        ),
    ],
)
def test_wrong_options_are_refused(spec: object, message: str) -> None:
    with raises("config.bad_reward") as caught:
        load(spec, [])
    assert caught.value.message.startswith(message)
