"""OpenAI's graders in Python: what they are given, what they return, what they cannot do."""

import math
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config.reward import GraderSettings
from zoo.gym.data import Message
from zoo.gym.rewards.code.grader import PythonGrader
from zoo.gym.rewards.reward import Sample, Score, Task


def score(source: str, response: str = "four", **metadata: Any) -> Score:
    task = Task((Message("user", "2 + 2?"),), answer="4", metadata=metadata)
    (found,) = PythonGrader(GraderSettings(source=source)).score([Sample(task, response)])
    return found


def test_it_reads_the_response_and_the_columns_of_the_row() -> None:
    source = (
        "def grade(sample, item):\n"
        "    assert sample['choices'][0]['message']['content'] == sample['output_text'] == 'four'\n"
        "    assert item['messages'][0]['content'] == '2 + 2?'\n"
        "    return 0.25 if (item['answer'], item['level']) == ('4', 3) else 0\n"
    )
    assert score(source, level=3).value == 0.25
    assert score(source, level=4).value == 0


def test_a_response_in_json_is_read() -> None:
    source = "def grade(sample, item):\n    return (sample['output_json'] or {}).get('n', -1)\n"
    assert score(source, '{"n": 7}').value == 7
    assert score(source, "seven").value == -1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("return 'a'", "could not convert"),
        ("return float('nan')", "expected a finite number"),
        ("raise KeyError('x')", "KeyError"),
        ("import socket; socket.create_connection(('127.0.0.1', 1))", "Error"),
        ("open('/etc/passwd').read()", "Permission"),
    ],
)
def test_what_is_no_number_gives_no_reward(line: str, words: str) -> None:
    found = score(f"def grade(sample, item):\n    {line}\n    return 1\n")
    assert math.isnan(found.value)
    assert words in found.reason


def test_more_memory_than_the_limit_gives_no_reward() -> None:
    source = "def grade(sample, item):\n    return len(bytearray(300_000_000))\n"
    task = Task((Message("user", "hi"),))
    values = [
        PythonGrader(GraderSettings(source=source, memory_mb=limit)).score([Sample(task, "a")])[0]
        for limit in (100, 512)
    ]
    assert math.isnan(values[0].value)
    assert values[1].value == 300_000_000


@pytest.mark.parametrize(
    "source",
    [
        "def repr(x): return 'boom'\ndef grade(sample, item): return 1",
        "def float(x): return 'boom'\ndef grade(sample, item): return 1",
        "class Graded(Exception): pass\ndef grade(sample, item): raise Graded('boom')",
    ],
)
def test_a_forged_number_gives_no_reward(source: str) -> None:
    found = score(source)
    assert math.isnan(found.value)
    assert "expected a number" in found.reason


@pytest.mark.parametrize("depth", [900, 985, 1_000, 100_000])
@pytest.mark.parametrize("closed", ["", "]"])
def test_a_response_of_deep_json_ends_no_run(depth: int, closed: str) -> None:
    source = "def grade(sample, item):\n    return len(sample['output_text'])\n"
    response = "[" * depth + closed * depth
    assert score(source, response).value == len(response)


@pytest.mark.parametrize("source", ["x = 1", "def grade(:", "raise ValueError('no')"])
def test_a_source_without_the_function_is_refused(source: str) -> None:
    with raises("rewards.bad_grader"):
        PythonGrader(GraderSettings(source=source))
