"""Rows with tools: chats, pairs, ratings and prompts, and models that cannot read them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.data.rendering.calls import (
    ASK,
    CALLED,
    OSLO,
    RAIN,
    SAY,
    TOOLS,
    WHOLE,
    as_transformers,
    calling,
    made,
)
from zoo.gym.data import EncodeOptions, encode_records, load_tokenizer
from zoo.gym.data.records import Record
from zoo.gym.data.rendering.template import ChatTemplate
from zoo.gym.data.rows import encode_row, make_encoder
from zoo.gym.train.rollouts import task_of
from zoo.models import resolve


@pytest.mark.parametrize(
    "record",
    [
        Record("f:1", "chat", (ASK, calling(OSLO))),
        Record("f:1", "completion", prompt="a", completion="b", tools=TOOLS),
        Record("f:1", "prompt", prompt="a", tools=TOOLS),
    ],
)
def test_tools_for_a_model_without_a_template_are_refused(
    byte_tokenizer: Callable[..., Any], record: Record
) -> None:
    with raises("data.no_chat_template", "f:1: tools, but the model tiny-bytes has no chat templ"):
        encode_records([record], byte_tokenizer(None), EncodeOptions(200))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record("f:1", "chat", (ASK, calling(OSLO), SAY)), "leaves out the tool calls of turn 2"),
        (Record("f:1", "chat", tuple(CALLED)), "knows the roles system, user and assistant"),
        (Record("f:1", "chat", (ASK, SAY), tools=TOOLS), "leaves out the tools"),
    ],
)
def test_zen_pico_refuses_tools_by_name(record: Record, reason: str) -> None:
    tokenizer = load_tokenizer(resolve("zen-pico").folder)
    with raises("data.no_usable_row", reason):
        encode_records([record], tokenizer, EncodeOptions(200))


def tool_template(byte_tokenizer: Callable[..., Any]) -> Any:
    """A tokenizer whose template writes the names of tools, and calls."""
    names = "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}"
    return byte_tokenizer(names + made(byte_tokenizer, WHOLE).source)


CALL_TEXT = '[weather {"city": "Oslo"}]<|im_end|>'


@pytest.mark.parametrize("kind", ["pair", "rated"])
def test_pairs_and_rated_answers_have_tools_and_learn_calls(
    byte_tokenizer: Callable[..., Any], kind: Any
) -> None:
    tokenizer = tool_template(byte_tokenizer)
    sides = tuple(Record("f:1", "chat", (ASK, turn), tools=TOOLS) for turn in (calling(OSLO), SAY))
    given = Record("f:1", kind, sides=sides if kind == "pair" else sides[:1], good=True)
    [unit] = encode_records([given], tokenizer, EncodeOptions(200)).units
    texts = [tokenizer.decode(row.ids.tolist()) for row in unit.rows]
    learned = [tokenizer.decode(row.ids[row.mask].tolist()) for row in unit.rows]
    assert all(text.startswith("weather time <|im_start|>user") for text in texts)
    assert learned == [CALL_TEXT, "It rains.<|im_end|>"][: len(unit.rows)]


def test_a_prompt_to_sample_from_and_its_task_have_the_tools(
    byte_tokenizer: Callable[..., Any],
) -> None:
    tokenizer = tool_template(byte_tokenizer)
    record = Record("f:1", "prompt", (ASK, calling(OSLO), RAIN), tools=TOOLS)
    [example] = encode_records([record], tokenizer, EncodeOptions(200)).examples
    text = tokenizer.decode(example.ids.tolist())
    assert text.startswith("weather time <|im_start|>user")
    assert CALL_TEXT in text
    assert task_of(example).tools == TOOLS


def test_a_prompt_to_answer_contains_its_tools(templates: dict[str, ChatTemplate]) -> None:
    template = templates["qwen3"]
    encoder = replace(make_encoder(template.tokenizer, EncodeOptions(999)), template=template)
    record = Record("f:1", "prompt", (ASK, calling(OSLO), RAIN), tools=TOOLS)
    text = template.tokenizer.decode(encode_row(encoder, record).ids)
    expected = as_transformers(template, record.messages, TOOLS)
    assert text == f"{expected}<|im_start|>assistant\n"
