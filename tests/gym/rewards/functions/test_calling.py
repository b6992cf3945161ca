"""How reward functions are called, and what they may return."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zoo.gym.rewards.functions.calling import as_reward, call, caller

FIELDS = {
    "query": "q",
    "response": "r",
    "answer": 5,
    "messages": [{"role": "user", "content": "q"}],
    "metadata": {"level": 2},
}


def two(query: str, response: str) -> Any:
    return (query, response)


def third(query: str, response: str, wanted: object) -> Any:
    return (query, response, wanted)


def third_has_another_default(query: str, response: str, scale: float = 2.0) -> Any:
    return (query, response, scale)


def third_is_an_optional_answer(query: str, response: str, answer: object = None) -> Any:
    return (query, response, answer)


def third_is_named_label(query: str, response: str, label: object = None) -> Any:
    return (query, response, label)


def third_is_named_correct_answer(query: str, response: str, Correct_Answer: str = "") -> Any:
    return (query, response, Correct_Answer)


def any_keywords(query: str, response: str, **fields: object) -> Any:
    return (query, response, fields["answer"], fields["metadata"])


def settings_by_keyword(query: str, response: str, *, mode: str = "a") -> Any:
    return (query, response, mode)


def by_name(query: str, response: str, *, metadata: dict[str, Any], answer: object) -> Any:
    return (query, response, metadata, answer)


def with_messages(query: str, response: str, messages: list[dict[str, str]]) -> Any:
    return (query, response, messages)


def any_number(*values: object) -> Any:
    return values


def other_names(q: str, r: str, gold: object) -> Any:
    return (q, r, gold)


def of_other_names(prompt: str, completion: str, solution: object) -> Any:
    return (prompt, completion, solution)


class Callable2:
    def __call__(self, query: str, response: str) -> Any:
        return (query, response)


@pytest.mark.parametrize(
    ("function", "received"),
    [
        (two, ("q", "r")),
        (third, ("q", "r", 5)),
        (third_has_another_default, ("q", "r", 2.0)),
        (third_is_an_optional_answer, ("q", "r", 5)),
        (third_is_named_label, ("q", "r", 5)),
        (third_is_named_correct_answer, ("q", "r", 5)),
        (any_keywords, ("q", "r", 5, {"level": 2})),
        (settings_by_keyword, ("q", "r", "a")),
        (by_name, ("q", "r", {"level": 2}, 5)),
        (with_messages, ("q", "r", FIELDS["messages"])),
        (any_number, ("q", "r", 5)),
        (other_names, ("q", "r", 5)),
        (of_other_names, ("q", "r", 5)),
        (Callable2(), ("q", "r")),
    ],
)
def test_a_function_gets_what_its_parameters_ask_for(
    function: Callable[..., object], received: tuple[object, ...]
) -> None:
    assert caller(function)(FIELDS) == received


def one(query: str) -> float:
    return 0.0


def unknown_name(query: str, response: str, *, level: int) -> float:
    return 0.0


def fourth(query: str, response: str, answer: str, level: int) -> float:
    return 0.0


def response_first(response: str, answer: str) -> float:
    return float(answer == response)


def reversed_order(response: str, query: str) -> float:
    return 0.0


def of_another_trainer(completion: str, solution: str) -> float:
    return 0.0


def answer_second(query: str, answer: str, response: str) -> float:
    return 0.0


def messages_first(messages: list[object], response: str) -> float:
    return 0.0


def query_third(prompt: str, response: str, query: str) -> float:
    return 0.0


def third_of_unknown_name(query: str, response: str, gld: object = None) -> float:
    return 0.0


def third_of_unknown_name_and_text(query: str, response: str, key: str = "") -> float:
    return 0.0


def answer_by_keyword_alone(query: str, response: str, *, solution: object = None) -> float:
    return 0.0


def answer_after_a_setting(query: str, response: str, scale: float = 1.0, gold: str = "") -> float:
    return 0.0


async def later(query: str, response: str) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (one, "got f(query)"),
        (unknown_name, "got a parameter 'level'"),
        (fourth, "got a parameter 'level'"),
        (response_first, "got f(response, answer), whose first parameter is 'response'"),
        (reversed_order, "got f(response, query), whose first parameter is 'response'"),
        (of_another_trainer, "got f(completion, solution), whose first parameter is 'completion'"),
        (answer_second, "got f(query, answer, response), whose second parameter is 'answer'"),
        (messages_first, "whose first parameter is 'messages'"),
        (query_third, "whose third parameter is 'query'"),
        (third_of_unknown_name, "got a third parameter 'gld' with the default None"),
        (third_of_unknown_name_and_text, "got a third parameter 'key' with the default ''"),
        (answer_by_keyword_alone, "got 'solution', which would keep its default"),
        (answer_after_a_setting, "got 'gold', which would keep its default"),
        (later, "got an async function"),
    ],
)
def test_other_parameters_are_refused(function: Callable[..., object], got: str) -> None:
    with pytest.raises(ValueError, match=r"expected f\(query, response\)") as caught:
        caller(function)
    assert got in str(caught.value)


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (0.5, 0.5),
        (1, 1.0),
        (True, 1.0),
        (np.float32(0.25), 0.25),
        (np.int64(3), 3.0),
        (np.bool_(True), 1.0),
        (np.array(0.5), 0.5),
        ({"reward": 1, "reasoning": "fine"}, 1.0),
    ],
)
def test_a_number_of_any_type_is_a_reward(result: object, value: float) -> None:
    assert as_reward(result)[0] == value


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "returned nothing (None): expected a number"),
        ("1", "returned str: expected a number"),
        ([1.0], "returned list: expected a number"),
        (np.array([1.0]), "returned ndarray: expected a number"),
        (1j, "returned complex: expected a number"),
        (math.nan, "returned nan: expected a finite number"),
        (-math.inf, "returned -inf: expected a finite number"),
        (10**400, "returned inf: expected a finite number"),
        (-1e300, "returned -1e+300: expected at most 1e+15 in size"),
        ({"score": 1}, "returned a mapping: expected reward and reasoning, got score"),
    ],
)
def test_anything_else_is_reported(result: object, message: str) -> None:
    assert call(lambda _: result, FIELDS) == {"problem": message}


def test_what_a_function_raises_is_reported_with_its_place() -> None:
    def broken(query: str, response: str) -> float:
        return float(response)

    problem = str(call(caller(broken), FIELDS)["problem"])
    assert problem.startswith("raised ValueError: could not convert string to float: 'r'")
    assert "(test_calling.py:" in problem


def test_an_exit_is_reported_like_an_error() -> None:
    def leaving(query: str, response: str) -> float:
        raise SystemExit(3)

    assert "raised SystemExit: 3" in str(call(caller(leaving), FIELDS)["problem"])
