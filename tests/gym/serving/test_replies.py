"""What a model wrote is told apart: reasoning, content, calls of tools."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data import load_tokenizer
from zoo.gym.data.tokenizer import Tokenizer
from zoo.gym.serving.replies import Piece, Reply, ToolCall, joined, require_calls
from zoo.models import pico_folder

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
]

QWEN = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
FORMS = {
    "<tool_call>": QWEN,
    "<tool_call><function=": "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"
    "</function>\n</tool_call>",
    "[TOOL_CALLS]": '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}]',
    "[TOOL_CALLS] [ARGS]": '[TOOL_CALLS]add[ARGS]{"a": 1}',
    '{"parameters": ': '{"name": "add", "parameters": {"a": 1}}',
}


def tokenizer(template: str) -> Tokenizer:
    found = load_tokenizer(pico_folder())
    found.chat_template = template
    return found


def read(
    text: str, template: str = "<tool_call>", tools: Any = TOOLS, size: int = 3, prompt: str = ""
) -> list[Piece]:
    """The pieces of an answer that comes in parts of some characters, neighbours joined."""
    reply = Reply(tokenizer(template), prompt, tools)
    pieces = [
        piece
        for start in range(0, len(text), size)
        for piece in reply.add(text[start : start + size])
    ]
    return joined(pieces + reply.end())


def calls(pieces: list[Piece]) -> list[tuple[str, Any]]:
    return [(p.name, json.loads(p.arguments)) for p in pieces if isinstance(p, ToolCall)]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("template", "text"), FORMS.items())
def test_a_call_is_read_in_the_form_of_the_chat_template(
    template: str, text: str, size: int
) -> None:
    pieces = read(text, template, size=size)
    assert calls(pieces) == [("add", {"a": 1})]
    assert len(pieces) == 1


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_reasoning_content_and_several_calls(size: int) -> None:
    text = f"<think>\nhm\n</think>\n\nI add.\n{QWEN}\n{QWEN}"
    pieces = read(text, size=size)
    assert [piece if isinstance(piece, tuple) else "call" for piece in pieces] == [
        ("reasoning", "hm\n"),
        ("content", "I add."),
        "call",
        "call",
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("bad", ['{"name": "add", "arg', "nothing", '{"arguments": {}}', "[1]"])
def test_a_call_that_cannot_be_read_is_content_as_it_was_written(bad: str, size: int) -> None:
    for text in (f"So: <tool_call>{bad}</tool_call> and on", f"So: <tool_call>{bad}"):
        assert read(text, size=size) == [("content", text)]


def test_without_tools_nothing_is_a_call() -> None:
    assert read(QWEN, tools=()) == [("content", QWEN)]


def test_a_prompt_may_have_begun_the_reasoning() -> None:
    pieces = read("hm</think>yes", prompt="<|im_start|>assistant\n<think>\n")
    assert pieces == [("reasoning", "hm"), ("content", "yes")]


def test_a_think_block_amid_an_answer_is_content() -> None:
    assert read("Write <think>a</think>.") == [("content", "Write <think>a</think>.")]


def test_a_tokenizer_may_say_itself_how_calls_are_written() -> None:
    found = tokenizer("<tool_call>")
    found.response_template = {  # type: ignore[attr-defined]
        "start_anchor": "ASSISTANT:",
        "fields": {
            "content": {"content": "text"},
            "tool_calls": {
                "open": "CALL ",
                "close": ";",
                "repeats": True,
                "content": "json",
                "transform": {"type": "function", "function": "{content}"},
            },
        },
    }
    reply = Reply(found, "USER: hi ASSISTANT:", TOOLS)
    pieces = reply.add('CALL {"name": "add", "arguments": {"a": 1}};') + reply.end()
    assert calls(pieces) == [("add", {"a": 1})]


def test_a_model_with_an_unknown_form_of_calls_is_refused() -> None:
    with raises("serving.no_tools"):
        require_calls(tokenizer("{{ messages[0].content }}"))


def test_calls_are_read_as_transformers_reads_them(shared: Callable[[str], Path]) -> None:
    """With the form that transformers has for Qwen3."""
    from transformers.cli.serving import utils

    forms: Any = utils._RESPONSE_TEMPLATE_FALLBACKS
    template = next(form for names, form in forms.items() if "qwen3" in names)
    source = shared("data/tokenizers/qwen3/chat_template.jinja").read_text()
    for text in (QWEN, f"<think>\nhm\n</think>\n\nI add.\n{QWEN}\n{QWEN}", "plain"):
        expected: Any = load_tokenizer(pico_folder()).parse_response(  # type: ignore[attr-defined]
            text, template, prefix="<|im_start|>assistant\n"
        )
        pieces = read(text, source)
        content = "".join(p[1] for p in pieces if isinstance(p, tuple) and p[0] == "content")
        assert content == expected.get("content", "")
        assert calls(pieces) == [
            (call["function"]["name"], call["function"]["arguments"])
            for call in expected.get("tool_calls", [])
        ]
