"""Tools and reasoning, by OpenAI's own client, on a model whose answers are scripted."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.gym.serving.conftest import Script

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        },
    }
]
USER: Any = {"role": "user", "content": "How is it in Oslo?"}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Oslo"}}\n</tool_call>'


def test_a_tool_is_called_and_its_result_is_answered(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, prompts: list[str]) -> None:
        first = await client.chat.completions.create(model="pico", messages=[USER], tools=TOOLS)
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content is None
        calls: Any = choice.message.tool_calls
        call = calls[0]
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments) == {"place": "Oslo"}
        assert '"description": "The weather of a place."' in prompts[0]
        result: Any = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        messages: Any = [USER, choice.message.model_dump(exclude_none=True), result]
        await client.chat.completions.create(model="pico", messages=messages, tools=TOOLS)
        assert CALL in prompts[1]
        assert "<tool_response>\nrain\n</tool_response>" in prompts[1]

    scripted(CALL, ask)


def test_a_stream_has_reasoning_content_and_calls(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": []}
        stream = await client.chat.completions.create(
            model="pico", messages=[USER], tools=TOOLS, stream=True
        )
        async for chunk in stream:
            delta = chunk.choices[0].delta
            found["content"] += delta.content or ""
            found["reasoning_content"] += getattr(delta, "reasoning_content", None) or ""
            found["calls"] += [
                (c.index, c.function.name) for c in delta.tool_calls or () if c.function
            ]
            found["finish"] = chunk.choices[0].finish_reason
        return found

    found = scripted(f"<think>\nhm\n</think>\n\nI look.\n{CALL}\n{CALL}", ask)
    assert found == {
        "content": "I look.",
        "reasoning_content": "hm\n",
        "calls": [(0, "weather"), (1, "weather")],
        "finish": "tool_calls",
    }


def test_without_parallel_calls_an_answer_ends_after_the_first(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        return await client.chat.completions.create(
            model="pico", messages=[USER], tools=TOOLS, parallel_tool_calls=False
        )

    choice = scripted(f"{CALL}\n{CALL}", ask).choices[0]
    assert len(choice.message.tool_calls) == 1
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("field", "ending"),
    [
        ({}, "<|im_start|>assistant\n"),
        ({"reasoning_effort": "none"}, "<think>\n\n</think>\n\n"),
        ({"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}, "</think>\n\n"),
    ],
)
def test_thinking_is_switched_off(scripted: Script, field: dict[str, Any], ending: str) -> None:
    async def ask(client: AsyncOpenAI, prompts: list[str]) -> str:
        await client.chat.completions.create(model="pico", messages=[USER], **field)
        return prompts[0]

    assert scripted("yes", ask).endswith(ending)


@pytest.mark.parametrize(
    ("field", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "response_format": {"type": "json_object"}}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, "tools"),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "1"}]}, "messages"),
        ({"messages": [USER, {"role": "assistant", "content": "1"}]}, "messages"),
        ({"messages": [USER | {"tool_calls": []}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
    ],
)
def test_what_tools_cannot_do_is_refused_by_name(
    scripted: Script, field: dict[str, Any], param: str
) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        with pytest.raises(BadRequestError) as caught:
            await client.chat.completions.create(**{"model": "pico", "messages": [USER]} | field)
        return caught.value.param

    assert scripted("no", ask) == param


def test_a_forced_call_has_the_arguments_of_its_schema(scripted: Script) -> None:
    """zen-pico writes nonsense; the form of a call makes it a call."""
    function = TOOLS[0]["function"] | {"strict": True}
    place = {"type": "string", "enum": ["Oslo", "Rome"]}
    function["parameters"] = {
        "type": "object",
        "properties": {"place": place},
        "required": ["place"],
        "additionalProperties": False,
    }
    tools: Any = [{"type": "function", "function": function}]
    named: Any = {"type": "function", "function": {"name": "weather"}}

    async def ask(client: AsyncOpenAI, _: list[str]) -> list[Any]:
        return [
            await client.chat.completions.create(
                model="pico", messages=[USER], tools=tools, tool_choice=choice, seed=1
            )
            for choice in ("required", named)
        ]

    for answer in scripted(None, ask):
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments)["place"] in place["enum"]
        assert answer.choices[0].finish_reason == "tool_calls"
