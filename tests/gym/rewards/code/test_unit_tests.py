"""Unit tests as a reward."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from zoo.gym.config.reward import TestsSettings as Options
from zoo.gym.errors import NotAvailableError
from zoo.gym.rewards import Reward, Sample, Task, load
from zoo.gym.rewards.code import unit_tests
from zoo.gym.rewards.code.row_tests import row_tests
from zoo.gym.rewards.code.sandbox import Outcome
from zoo.gym.rewards.code.unit_tests import UnitTests

TWO = {"test_list": ["assert f(1) == 2", "assert f(2) == 3"]}


@pytest.fixture(scope="module")
def reward() -> Reward:
    try:
        return UnitTests()
    except NotAvailableError as error:
        pytest.skip(error.message)


def value(reward: Reward, response: str, **metadata: Any) -> float:
    return reward.score([sample(response, metadata=metadata)])[0].value


def test_code_that_passes_every_test_scores_one(reward: Reward) -> None:
    assert value(reward, "```python\ndef f(x):\n    return x + 1\n```", **TWO) == 1.0


def test_code_that_fails_a_test_scores_zero_and_says_which(reward: Reward) -> None:
    score = reward.score([sample("f = lambda x: 2", metadata=TWO)])[0]
    assert score.value == 0.0
    assert score.reason == "1 of 2 tests passed; assert f(2) == 3: AssertionError"


def test_partial_counts_the_share_of_passed_tests(reward: Reward) -> None:
    partial = UnitTests(Options(partial=True))
    assert value(partial, "f = lambda x: 2", **TWO) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("response", ["", "I cannot", "while True: pass", "import os; os._exit(0)"])
def test_what_is_no_solution_scores_zero(response: str) -> None:
    assert value(UnitTests(Options(timeout_s=1)), response, **TWO) == 0.0


@pytest.mark.slow
def test_memory_is_limited_as_the_option_says(reward: Reward) -> None:
    code = "x = bytearray(300_000_000)\nf = lambda x: x + 1"
    assert value(reward, code, **TWO) == 1.0
    assert value(UnitTests(Options(memory_mb=128)), code, **TWO) == 0.0


def test_imports_and_setup_come_before_the_tests(reward: Reward) -> None:
    row = {"test_list": ["assert f(N) == math.pi"]}
    row |= {"test_imports": ["import math"], "test_setup_code": "N = 3"}  # type: ignore[dict-item]
    assert value(reward, "import math\ndef f(x): return math.pi", **row) == 1.0


HUMAN = {
    "prompt": 'def add(a, b):\n    """Adds."""\n',
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n",
}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("    return a + b", 1.0),
        ("def add(a, b):\n    return a + b", 1.0),
        ("    return a - b", 0.0),
    ],
)
def test_a_continued_function_comes_with_its_prompt(
    reward: Reward, response: str, expected: float
) -> None:
    assert value(reward, response, **HUMAN) == expected


def test_a_row_without_tests_is_refused_before_any_response(reward: Reward) -> None:
    with raises("rewards.missing_column", r"rows\.jsonl:1: no tests"):
        load("tests", [task(metadata={"test_list": []})])
    assert row_tests(task()) == ()
    assert reward.score([sample("x = 1")])[0].failed


def test_rows_with_tests_are_tested_by_default(reward: Reward) -> None:
    with load("auto", [task("5", metadata=TWO)]) as chosen:
        assert chosen.name == "tests"
        assert chosen.description.startswith("tests, because 1 row has unit tests: ")


def test_a_system_that_cannot_confine_code_needs_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = Outcome(refused="darwin is not supported")
    monkeypatch.setattr(unit_tests, "run_program", lambda program, limits: refused)
    with raises("rewards.no_sandbox", "darwin is not supported") as caught:
        load("tests", [task(metadata=TWO)])
    assert "unconfined: true" in str(caught.value.hint)


@pytest.mark.slow
def test_solutions_of_mbpp_pass_and_broken_ones_do_not(
    reward: Reward, real_tasks: Callable[..., list[Task]]
) -> None:
    tasks = real_tasks("mbpp.jsonl", "text", lambda row: None)[:20]
    codes = [str(one.metadata["code"]) for one in tasks]
    right = [Sample(one, f"```python\n{c}\n```") for one, c in zip(tasks, codes, strict=True)]
    broken = [Sample(one.task, one.response.replace("return", "return None #")) for one in right]
    assert [score.value for score in reward.score(right)] == [1.0] * 20
    assert [score.value for score in reward.score(broken)] == [0.0] * 20
