"""Calls of tools: what a model wrote is read as calls, and compared with those of the row."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gym.evaluate.conftest import Call, write_rows
from zoo.gym.chat.rows import Question, Reply
from zoo.gym.chat.session import Answered
from zoo.gym.evaluate import answering
from zoo.models import pico_folder

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
USER = {"role": "user", "content": "Add 1."}
CALL = {"name": "add", "arguments": {"a": 1}}
ROW = {"messages": [USER], "tools": [ADD], "answer": [CALL]}
CHAT = {
    "messages": [USER, {"role": "assistant", "content": "", "tool_calls": [{"function": CALL}]}],
    "tools": [ADD],
}

WRITTEN = ('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', "It is 2.")


@pytest.fixture
def qwen(place: Path, shared: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> str:
    """A model with Qwen3's template, whose answers are `WRITTEN` in turn."""
    folder = place / "model"
    shutil.copytree(pico_folder(), folder)
    shutil.copy(shared("data/tokenizers/qwen3/chat_template.jinja"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))

    def replies(_: object, asked: Iterator[Question], *__: object, **___: object) -> Any:
        for number, question in enumerate(asked):
            assert question.tools
            yield Reply(question, Answered(WRITTEN[number % 2], "stop", 1, 1))

    monkeypatch.setattr(answering, "replies", replies)
    return str(folder)


def test_a_row_is_right_if_its_calls_are_written(qwen: str, place: Path, call: Call) -> None:
    write_rows(place / "tools.jsonl", [ROW, ROW, ROW | {"answer": []}, ROW | {"answer": []}])
    outcome = call("eval", qwen, "--tasks", "tools", "--data", ".", "--json")
    assert outcome.code == 0, outcome.stderr
    results: Any = outcome.json["results"]
    # called and to be called; not called, but to be; called, but not to be; neither
    assert results[0]["value"] == 2 / 4


def test_rows_of_a_file_with_calls_are_graded_by_them(qwen: str, place: Path, call: Call) -> None:
    rows = write_rows(place / "my.jsonl", [CHAT, CHAT])
    outcome = call("eval", qwen, "--data", str(rows), "--json")
    assert outcome.code == 0, outcome.stderr
    results: Any = outcome.json["results"]
    assert [(each["task"], each["value"]) for each in results] == [("my-calls", 0.5)]


def test_a_model_that_would_not_see_the_tools_is_refused(place: Path, call: Call) -> None:
    write_rows(place / "tools.jsonl", [ROW])
    bare = place / "bare"
    shutil.copytree(pico_folder(), bare)
    (bare / "chat_template.jinja").unlink()
    cases = {
        "zen-pico": "the chat template leaves out the tools",
        str(bare): "shows tools, got one",
    }
    for model, text in cases.items():
        outcome = call("eval", model, "--tasks", "tools", "--data", ".", "--json")
        assert (outcome.code, text in outcome.stderr) == (2, True)
