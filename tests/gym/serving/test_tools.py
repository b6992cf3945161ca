"""Tools and reasoning, by OpenAI's own client, on a model whose answers are scripted."""

import json
from pathlib import Path
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


@pytest.mark.parametrize("stop", [[], [f"</tool_call>\n{CALL}!"]])
def test_without_parallel_calls_an_answer_ends_after_the_first(
    scripted: Script, stop: list[str]
) -> None:
    """The beginning of a stop text is held back, so that two calls come at once."""

    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        return await client.chat.completions.create(
            model="pico", messages=[USER], tools=TOOLS, parallel_tool_calls=False, stop=stop
        )

    choice = scripted(f"{CALL}\n{CALL}", ask).choices[0]
    assert len(choice.message.tool_calls) == 1
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "arguments",
    ["[" * 5000 + "]" * 5000, '{"x": NaN}', '{"x": "\\ud800"}', '"Oslo"'],
    ids=["too deep", "no number", "half a character", "no object"],
)
def test_a_call_that_could_not_be_sent_back_stays_text(
    scripted: Script, arguments: str, streams: bool
) -> None:
    text = f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'

    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        create = client.chat.completions.create
        if not streams:
            answer = await create(model="pico", messages=[USER], tools=TOOLS)
            return answer.choices[0].message.content
        stream = await create(model="pico", messages=[USER], tools=TOOLS, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert scripted(text, ask) == text


def test_a_broken_call_loses_nothing_of_its_text(scripted: Script) -> None:
    text = '<tool_call>\n<tool_call>\n{"name": 1}\n</tool_call>'

    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        answer = await client.chat.completions.create(model="pico", messages=[USER], tools=TOOLS)
        return answer.choices[0].message.content

    assert scripted(text, ask) == text


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
        ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "tool_choice"),
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


def forced(scripted: Script, *tools: Any) -> list[Any]:
    """The calls of some answers of zen-pico that have to call one of the tools."""

    async def ask(client: AsyncOpenAI, _: list[str]) -> list[Any]:
        answers = [
            await client.chat.completions.create(
                model="pico", messages=[USER], tools=tools, tool_choice="required", seed=seed
            )
            for seed in range(3)
        ]
        each: list[Any] = [answer.choices[0].message.tool_calls for answer in answers]
        return [calls[0] for calls in each]

    calls: list[Any] = scripted(None, ask)
    return calls


def tool(name: str, **parameters: Any) -> Any:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_references_of_a_forced_tool_stay_within_it(scripted: Script) -> None:
    """Each tool has its own P, and its own root."""
    tools = [
        tool(
            name,
            type="object",
            properties={"p": {"$ref": "#/$defs/P"}, "q": {"$ref": "#/properties/p"}},
            required=["p", "q"],
            additionalProperties=False,
            **{"$defs": {"P": {"const": name}}},
        )
        for name in ("one", "two")
    ]
    for call in forced(scripted, *tools):
        name = call.function.name
        assert json.loads(call.function.arguments) == {"p": name, "q": name}


def test_the_arguments_of_a_forced_call_are_an_object(scripted: Script) -> None:
    calls = forced(scripted, tool("one", properties={}, additionalProperties=False))
    assert [call.function.arguments for call in calls] == ["{}"] * 3


def test_a_forced_call_is_one_behind_a_think_block_that_the_prompt_began(
    scripted: Script, tmp_path: Path
) -> None:
    template = tmp_path / "model" / "chat_template.jinja"
    begun = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}"
    template.write_text(template.read_text().rpartition("{%- if add_generation_prompt")[0] + begun)
    calls = forced(scripted, tool("one", type="object", additionalProperties=False))
    assert [call.function.name for call in calls] == ["one"] * 3
