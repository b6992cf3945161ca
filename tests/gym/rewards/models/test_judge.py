"""The verdicts of a judge."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample
from zoo.gym.config.reward import JudgeSettings
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rewards import load
from zoo.gym.rewards.models.judge import Judge, read_verdict


@pytest.mark.parametrize(
    ("verdict", "value"),
    [
        ("Good.\nScore: 8", 0.8),
        ("**Score:** 10", 1.0),
        ("score = 2.5", 0.25),
        ("Score: 9? No. Score: 0", 0.0),
        ("<think>Score: 9</think>Score: 1", 0.1),
    ],
)
def test_the_last_score_counts(verdict: str, value: float) -> None:
    assert read_verdict(verdict, 0, 10).value == value


def test_a_scale_may_start_above_zero() -> None:
    assert [read_verdict(f"Score: {n}", 1, 5).value for n in (1, 3, 5)] == [0, 0.5, 1]


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ("It is fine.", 'the judge gave no score: "It is fine."'),
        ("<think>Score: 9", "the judge gave no score"),
        ("Score: 11", "the judge gave 11: expected 0 to 10"),
        ("Score: -1", "the judge gave -1: expected 0 to 10"),
        ("", "the judge gave no score"),
    ],
)
def test_without_a_readable_score_there_is_no_reward(verdict: str, reason: str) -> None:
    score = read_verdict(verdict, 0, 10)
    assert score.failed
    assert score.reason.startswith(reason)


class FakeSession:
    def __init__(self, verdict: str) -> None:
        self.verdict, self.prompts = verdict, list[str]()
        self.given: dict[str, object] = {}

    def answer(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if "too long" in prompt:
            raise InputError("prompt: expected fewer than 9 tokens, got 10")
        return self.verdict


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    fake = FakeSession("Score: 4")

    @contextmanager
    def open_chat(model: str, **options: object) -> Iterator[FakeSession]:
        fake.given = {"model": model, **options}
        yield fake

    monkeypatch.setattr("zoo.gym.chat.open_chat", open_chat)
    return fake


def test_the_judge_reads_the_question_the_answer_and_the_response(session: FakeSession) -> None:
    with load({"kind": "judge", "model": "zen-pico", "highest": 5}, []) as reward:
        score = reward.score([sample("<think>hm</think>it is $6", "5")])[0]
    assert score.value == 0.8
    [prompt] = session.prompts
    assert "2 + 3 = ?" in prompt
    assert "it is $6" in prompt
    assert "Reference answer (may be empty):\n5" in prompt
    assert "from 0 (worst) to 5 (best)" in prompt
    assert "hm" not in prompt


def test_the_judge_is_opened_as_the_settings_say(session: FakeSession) -> None:
    spec = {"kind": "judge", "model": "zen-pico", "adapter": "tuned", "max_new_tokens": 9}
    load(spec, []).close()
    assert session.given == {
        "model": "zen-pico",
        "adapter": "tuned",
        "max_new_tokens": 9,
        "system": "",
    }


def test_a_prompt_of_the_user_is_read_instead(session: FakeSession) -> None:
    spec = {"kind": "judge", "model": "zen-pico", "prompt": "Rate for $$1: $response"}
    with load(spec, []) as reward:
        reward.score([sample("five")])
    assert session.prompts == ["Rate for $1: five"]


def test_a_response_that_the_judge_cannot_read_has_no_reward(session: FakeSession) -> None:
    with load({"kind": "judge", "model": "zen-pico"}, []) as reward:
        scores = reward.score([sample("too long"), sample("short")])
    assert [score.failed for score in scores] == [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "reward: judge: model: not given"),
        ({"model": "a", "prompt": "Rate it"}, "reward: judge: prompt: expected $response"),
        ({"model": "a", "prompt": "$response $respons"}, "reward: judge: prompt: expected"),
        ({"model": "a", "prompt": "$response costs $"}, "reward: judge: prompt: expected"),
        ({"model": "a", "lowest": 10}, "reward: judge: highest: expected more than lowest 10"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with raises("config.bad_reward") as caught:
        load({"kind": "judge", **options}, [])
    assert caught.value.message.startswith(message)


def test_a_judge_that_is_not_here_is_refused() -> None:
    with pytest.raises(NotAvailableError):
        load({"kind": "judge", "model": "org/never-published"}, [])


@pytest.mark.slow
def test_a_real_model_gives_a_verdict_or_none() -> None:
    with Judge(JudgeSettings(model="zen-pico", prompt="$response", max_new_tokens=4)) as reward:
        score = reward.score([sample("12+34=")])[0]
    assert score.failed
    assert score.reason.startswith('the judge gave no score: "')
