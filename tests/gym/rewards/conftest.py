"""Tasks and samples for rewards, from text and from real files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.data.records import Message
from zoo.gym.rewards import Sample, Task

Answer = Callable[[dict[str, Any]], object]


def task(answer: object = None, query: str = "2 + 3 = ?", **fields: Any) -> Task:
    return Task((Message("user", query),), answer, source="rows.jsonl:1", **fields)


def sample(response: str, answer: object = None, **fields: Any) -> Sample:
    return Sample(task(answer, **fields), response)


@pytest.fixture(scope="session")
def real_tasks(shared: Callable[[str], Path]) -> Callable[[str, str, Answer], list[Task]]:
    """Reads a file of `data/rl`: its name, the key of the query, and how to get the answer."""

    def read(name: str, query: str, answer: Answer) -> list[Task]:
        lines = shared(f"data/rl/{name}").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return [
            Task((Message("user", str(row[query])),), answer(row), metadata=row, source=f"{name}:1")
            for row in rows
        ]

    return read
