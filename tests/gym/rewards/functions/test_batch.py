"""Reward functions of TRL's form: one call for all completions, columns as lists by name."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample
from zoo.gym.data import Message
from zoo.gym.data.reading.prompts import parse_prompt
from zoo.gym.rewards import Sample, Task, load
from zoo.gym.rewards.functions.batch import batch_function
from zoo.gym.train.rollouts import task_of_record

FILE = """
def length(completions, **kwargs):
    return [float(len(text)) for text in completions]

def rank(completions, **kwargs):
    return [sorted(completions).index(text) for text in completions]

def same(prompts, completions, answer, level):
    return [float(c == a) + l for c, a, l in zip(completions, answer, level)]

def said(completions, **kwargs):
    return [len(turns[0]["content"]) for turns in completions]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.py"
    path.write_text(FILE)
    return path


def with_level(response: str, answer: str, level: int) -> Sample:
    return sample(response, answer, metadata={"level": level})


@pytest.mark.parametrize(
    ("name", "samples", "rewards"),
    [
        ("length", [sample("a"), sample("abc")], [1, 3]),
        ("rank", [sample("b"), sample("c"), sample("a")], [1, 2, 0]),  # sees all of them
        ("same", [with_level("a", "a", 10), with_level("a", "b", 20)], [11, 20]),
    ],
)
def test_a_function_in_a_file_scores_a_batch(
    file: Path, name: str, samples: list[Sample], rewards: list[float]
) -> None:
    with load(f"{file}:{name}", [one.task for one in samples]) as reward:
        assert [one.value for one in reward.score(samples)] == rewards


@pytest.mark.parametrize("is_live", [True, False])
def test_a_row_without_a_needed_column_is_refused(file: Path, is_live: bool) -> None:
    def same(completions: list[str], answer: list[str], level: list[int]) -> list[float]:
        return [0.0]

    with raises("rewards.missing_column", "no level"):
        load(same if is_live else f"{file}:same", [sample("a", "a").task])


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [("Hi", "a"), ([{"role": "user", "content": "Hi"}], [{"role": "assistant", "content": "a"}])],
)
def test_prompts_and_completions_have_the_form_of_the_row(
    prompt: object, completion: object
) -> None:
    seen: list[object] = []

    def keep(prompts: list[object], completions: list[object]) -> list[float]:
        seen.extend([*prompts, *completions])
        return [1.0]

    task = task_of_record(parse_prompt({"prompt": prompt}, "f:1"))
    with load(keep, []) as reward:
        assert reward.score([Sample(task, "a")])[0].value == 1.0
    assert seen == [prompt, completion]


def test_turns_reach_a_function_in_a_file(file: Path) -> None:
    chat = replace(sample("abc"), task=Task((Message("user", "q"),), is_chat=True))
    with load(f"{file}:said", []) as reward:
        assert reward.score([chat])[0].value == 3.0


def test_columns_that_some_rows_lack_are_none() -> None:
    seen: dict[str, Any] = {}

    def keep(completions: list[str], **columns: object) -> list[float]:
        seen.update(columns)
        return [0.0, 0.0]

    with load(keep, []) as reward:
        reward.score([with_level("a", "x", 1), sample("b", "y")])
    assert (seen["level"], seen["answer"]) == ([1, None], ["x", "y"])
    assert "completions" not in seen


@pytest.mark.parametrize(
    ("result", "values"),
    [
        ([0.5, None], [0.5, math.nan]),
        ((1, True), [1.0, 1.0]),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        ([1.0, math.inf], [1.0, math.nan]),
        ([1.0], [math.nan, math.nan]),
        (1.0, [math.nan, math.nan]),
    ],
    ids=str,
)
def test_a_completion_without_a_finite_number_has_no_reward(
    result: object, values: list[float]
) -> None:
    def given(completions: list[str]) -> object:
        return result

    with load(given, []) as reward:
        scores = reward.score([sample("a"), sample("b")])
    assert np.array_equal([one.value for one in scores], values, equal_nan=True)
    assert all(one.reason for one in scores if one.failed)


def test_an_error_names_its_line_for_each_completion() -> None:
    def broken(completions: list[str]) -> list[float]:
        raise KeyError("nothing")

    with load(broken, []) as reward:
        scores = reward.score([sample("a"), sample("b")])
    assert [one.failed for one in scores] == [True, True]
    assert "test_batch.py:" in scores[1].reason


def ours(query: str, completions: str) -> float:
    return 0.0


def single(query: str, response: str) -> float:
    return 0.0


def ids(completions: list[str], completion_ids: list[object]) -> list[float]:
    return []


async def later(completions: list[str]) -> list[float]:
    return []


@pytest.mark.parametrize("function", [ours, single, len])
def test_a_function_of_one_response_is_none(function: Callable[..., object]) -> None:
    assert batch_function(function) is None


@pytest.mark.parametrize(("function", "got"), [(ids, "completion_ids"), (later, "async")])
def test_what_a_function_would_not_get_is_refused(
    function: Callable[..., object], got: str
) -> None:
    with raises("rewards.bad_function", got):
        load(function, [])
