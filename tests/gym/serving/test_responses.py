"""OpenAI's Responses, by its own client, on a model whose answers are scripted."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.gym.serving.conftest import Script
from tests.gym.serving.test_tools import CALL
from zoo.gym.serving.responses import ResponsesBody

TOOLS: Any = [
    {
        "type": "function",
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        "strict": False,
    }
]


def test_items_may_be_sent_back(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, prompts: list[str]) -> None:
        first = await client.responses.create(
            model="pico", input="How is it in Oslo?", instructions="Be brief.", tools=TOOLS
        )
        assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
        assert first.output_text == "I look."
        assert first.status == "completed"
        assert first.usage is not None
        assert first.usage.input_tokens_details.cached_tokens == 0
        assert 0 < first.usage.output_tokens_details.reasoning_tokens < first.usage.output_tokens
        call: Any = first.output[2]
        assert json.loads(call.arguments) == {"place": "Oslo"}
        items: Any = [
            {"role": "user", "content": "How is it in Oslo?"},
            *(item.model_dump(exclude_none=True) for item in first.output),
            {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
        ]
        await client.responses.create(model="pico", input=items, tools=TOOLS)
        assert "Be brief." in prompts[0]
        assert f"<think>\nhm\n</think>\n\nI look.\n{CALL}" in prompts[1]
        assert "<tool_response>\nrain\n</tool_response>" in prompts[1]

    scripted(f"<think>\nhm\n</think>\n\nI look.\n{CALL}", ask)


def test_a_stream_has_the_events_of_each_item(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> list[Any]:
        stream = await client.responses.create(
            model="pico", input="How is it?", tools=TOOLS, stream=True
        )
        return [event async for event in stream]

    events = scripted(f"<think>hm</think>yes\n{CALL}", ask)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert list(dict.fromkeys(kinds)) == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "output_item.done",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "completed",
    ]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    whole = events[-1].response
    assert text == whole.output_text == "yes"
    assert json.loads(whole.output[2].arguments) == {"place": "Oslo"}


def test_an_answer_that_is_cut_is_incomplete(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        return await client.responses.create(
            model="pico", input="Hi", max_output_tokens=1, temperature=0
        )

    response = scripted(None, ask)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"


def test_a_stream_begins_in_progress_also_if_one_piece_is_all(scripted: Script) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> list[Any]:
        stream = await client.responses.create(
            model="pico", input="Hi", max_output_tokens=1, temperature=0, stream=True
        )
        return [event.response.status async for event in stream if hasattr(event, "response")]

    assert scripted(None, ask) == ["in_progress", "in_progress", "incomplete"]


def reasoning(text: str) -> Any:
    parts = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": parts}


def test_reasoning_belongs_to_the_turn_that_it_precedes() -> None:
    called: Any = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    said: Any = {"role": "assistant", "content": "I look."}
    items: Any = [
        {"role": "user", "content": "How is it?"},
        *(said, reasoning("first "), reasoning("second"), called, output),
        *({"role": "assistant", "content": "Rain."}, {"role": "user", "content": "And Rome?"}),
    ]
    turns = ResponsesBody(model="pico", input=items).chat().messages
    assert [turn.reasoning_content for turn in turns] == [None, None, "first second", *[None] * 3]
    assert [bool(turn.tool_calls) for turn in turns] == [turn == turns[2] for turn in turns]


def test_text_behind_a_call_is_of_the_same_turn() -> None:
    called: Any = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    items: Any = [
        {"role": "user", "content": "How is it?"},
        *(called, {"role": "assistant", "content": "Wait."}),
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    ]
    turns = ResponsesBody(model="pico", input=items).chat().messages
    assert [turn.role for turn in turns] == ["user", "assistant", "tool"]
    assert turns[1].content == "Wait."


def test_an_answer_has_the_form_of_a_schema(scripted: Script) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    text: Any = {"format": {"type": "json_schema", "name": "yes", "schema": schema}}

    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        return await client.responses.create(
            model="pico", input="Hi", text=text, max_output_tokens=200
        )

    assert json.loads(scripted(None, ask).output_text)["ok"] in (True, False)


@pytest.mark.parametrize(
    ("field", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"input": [{"type": "computer_call_output"}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input"),
        ({"reasoning": {"effort": "high"}}, "reasoning"),
        ({"text": {"format": {"type": "text", "schema": {"type": "object"}}}}, "text"),
        ({"text": {"format": {"type": "json_schema", "name": "yes"}}}, "text"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input"),
        ({"temperature": 3}, "temperature"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    scripted: Script, field: dict[str, Any], param: str
) -> None:
    async def ask(client: AsyncOpenAI, _: list[str]) -> Any:
        with pytest.raises(BadRequestError) as caught:
            await client.responses.create(**{"model": "pico", "input": "Hi"} | field)
        return caught.value.param

    assert scripted("no", ask) == param
