"""Reward functions that Python code passes."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample
from zoo.gym.config.reward import LiveSettings
from zoo.gym.data import Call, Message
from zoo.gym.rewards import Sample, Task, load
from zoo.gym.rewards.functions.live import LiveFunction


def length(query: str, response: str) -> float:
    return len(response)


def test_a_function_is_a_reward_alone_and_in_a_list() -> None:
    with load(length, []) as alone, load([length, "exact"], []) as summed:
        assert alone.score([sample("abc")])[0].value == 3.0
        assert summed.score([sample("abc", "abc")])[0].parts == {"length": 3.0, "exact": 1.0}


def test_a_function_gets_the_tool_calls_and_their_results() -> None:
    seen: list[object] = []

    def keep(query: str, response: str, messages: list[object]) -> float:
        seen.extend(messages)
        return 1.0

    call = Message("assistant", "", calls=(Call("f", {"x": 1}, "c"),))
    result = Message("tool", "2", tool="f", call_id="c")
    with load(keep, []) as reward:
        reward.score([Sample(Task((Message("user", "q"), call, result)), "a")])
    function = {"name": "f", "arguments": {"x": 1}}
    calls = [{"id": "c", "type": "function", "function": function}]
    assert seen[1:] == [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "2", "name": "f", "tool_call_id": "c"},
    ]


def test_a_failing_call_costs_its_own_row_only() -> None:
    def odd(query: str, response: str) -> float:
        return float(response)

    with load(odd, []) as reward:
        scores = reward.score([sample(text) for text in ("1", "x", "nan", "4")])
    assert [score.failed for score in scores] == [False, True, True, False]
    assert scores[2].reason == "returned nan: expected a finite number"


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_function_that_hangs_interrupts_the_run(hold: threading.Event) -> None:
    def waiting(query: str, response: str) -> float:
        hold.wait()
        return 0.0

    reward = LiveFunction(LiveSettings(function=waiting), timeout_s=0.05)
    with raises("rewards.function_failed", r"waiting did not return within 0\.05 s: rows"):
        reward.score([sample("abc")])


def test_other_parameters_are_refused() -> None:
    with raises("rewards.bad_function", r"expected f\(query, response\)"):
        load(lambda query: 0.0, [])


def test_a_function_that_takes_the_response_first_is_refused() -> None:
    def exact(response: str, answer: str) -> float:
        return float(response == answer)

    with raises("rewards.bad_function", r"reward: exact: expected f\(query, response\).* got f\("):
        load(exact, [])


def of_third(query: str, response: str, Level: float) -> float:
    return Level


def of_answer(query: str, response: str, level: float) -> float:
    return level


def of_default(query: str, response: str, *, level: float = 1) -> float:
    return level


@pytest.mark.parametrize("score", [of_third, of_answer, of_default])
def test_a_parameter_with_a_column_s_name_that_would_not_get_it_is_refused(
    score: Callable[..., float],
) -> None:
    load(score, [Task((), "1000")]).close()
    load(score, [Task((), "1000", metadata={"level": "1000"})]).close()
    load(partial(of_default, level=2), [Task((), "1000", metadata={"level": 0})]).close()
    with raises("rewards.parameter_not_given"):
        load(score, [Task((), "1000", metadata={"level": 0})])
