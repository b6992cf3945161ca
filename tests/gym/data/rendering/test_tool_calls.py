"""Tool calls on real templates: rendered as by transformers, learned up to their end token."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gym.data.rendering.calls import (
    ASK,
    OSLO,
    RAIN,
    ROME,
    SAY,
    SUN,
    TOOLS,
    WITH_TOOLS,
    as_transformers,
    calling,
    learned_turns,
)
from zoo.gym.data.records import Call, Message, Tools
from zoo.gym.data.rendering.mask import learned_tokens, render_turns
from zoo.gym.data.rendering.template import ChatTemplate, render


def written(name: str, turn: Message) -> str:
    """What each template writes for the calls of a turn, as its source says."""
    if name == "llama3.2":
        [call] = turn.calls
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        return f'{{"name": "{call.name}", "parameters": {arguments}}}'
    calls = (
        f'<tool_call>\n{{"name": "{call.name}", "arguments": '
        f"{json.dumps(call.arguments, ensure_ascii=False)}}}\n</tool_call>"
        for call in turn.calls
    )
    return "\n".join((*((turn.content,) if turn.content else ()), *calls))


@pytest.mark.parametrize("name", WITH_TOOLS)
@pytest.mark.parametrize("tools", [TOOLS, ()], ids=["tools", "no tools"])
def test_a_call_is_learned_and_its_result_only_read(
    templates: dict[str, ChatTemplate], name: str, tools: Tools
) -> None:
    turn, end = calling(OSLO), WITH_TOOLS[name]
    found = learned_turns(templates[name], [ASK, turn, RAIN, SAY, ASK, SAY], tools)
    assert found[0] == written(name, turn) + end
    assert len(found) == 3
    assert not any("rain\n" in text or "Oslo?" in text for text in found)


@pytest.mark.parametrize("name", ["qwen3", "qwen2.5"])
@pytest.mark.parametrize("text", ["", "Let me see.", "a\n\nb "])
def test_several_calls_with_text_are_one_learned_turn(
    templates: dict[str, ChatTemplate], name: str, text: str
) -> None:
    turn = calling(OSLO, ROME, text=text)
    found = learned_turns(templates[name], [ASK, turn, RAIN, SUN, SAY, ASK, SAY])
    assert found[0] == written(name, turn) + WITH_TOOLS[name]
    assert len(found) == 3


def test_a_call_at_the_end_is_learned(templates: dict[str, ChatTemplate]) -> None:
    found = learned_turns(templates["qwen2.5"], [ASK, calling(ROME)])
    assert found == [written("qwen2.5", calling(ROME)) + "<|im_end|>"]


def test_the_reasoning_before_a_call_is_learned(templates: dict[str, ChatTemplate]) -> None:
    chat = [ASK, calling(OSLO, reasoning="Hm"), RAIN, SAY]
    block = "<think>\nHm\n</think>\n\n"
    first, _ = learned_turns(templates["qwen3"], chat)
    assert first == block + written("qwen3", chat[1]) + "<|im_end|>"
    first, _ = learned_turns(templates["qwen2.5"], chat)
    assert first == f"{block}\n" + written("qwen2.5", chat[1]) + "<|im_end|>"


def test_keep_writes_omitted_reasoning_before_a_call(
    templates: dict[str, ChatTemplate],
) -> None:
    chat = [ASK, calling(OSLO, reasoning="Hm"), RAIN, SAY, ASK, SAY]
    omitted, *_ = learned_turns(templates["qwen3"], chat)
    assert omitted == written("qwen3", chat[1]) + "<|im_end|>"
    kept, *_ = learned_turns(templates["qwen3"], chat, keep_thinking=True)
    assert kept == "<think>\nHm\n</think>\n\n" + omitted


def test_a_call_that_the_data_excludes_is_not_learned(templates: dict[str, ChatTemplate]) -> None:
    chat = [ASK, calling(OSLO, learned=False), RAIN, SAY]
    assert learned_turns(templates["qwen2.5"], chat) == ["It rains.<|im_end|>"]


parts = st.sampled_from(
    [
        *(" ", "\n", "a", "é", "漢", '"', "\\", "{}", "\U000f0000", "7"),
        *("<|im_end|>", "<|im_start|>assistant\n", "<|eot_id|>"),
        *("<tool_call>", "</tool_call>", "<tool_response>"),
    ]
)
texts = st.lists(parts, max_size=5).map("".join)
words = st.lists(parts, min_size=1, max_size=3).map(lambda found: f"f{''.join(found)}".strip())
values: Any = st.recursive(
    texts | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
calls = st.builds(Call, words, st.dictionaries(texts, values, max_size=3))
definitions = st.builds(
    lambda name, parameters: {
        "type": "function",
        "function": {"name": name, "parameters": parameters},
    },
    words,
    st.dictionaries(texts, values, max_size=2),
)


@st.composite
def chats(draw: st.DrawFn, most_calls: int) -> list[Message]:
    """Chats of one or two questions, each with calls, their results and an answer."""
    turns: list[Message] = []
    for _ in range(draw(st.integers(1, 2))):
        called = draw(st.lists(calls, min_size=1, max_size=most_calls))
        text = draw(texts.filter(lambda t: "<think>" not in t)) if most_calls > 1 else ""
        turns += [Message("user", draw(texts)), calling(*called, text=text.strip())]
        turns += [Message("tool", draw(texts)) for _ in called]
        turns += [Message("assistant", f"So {draw(texts)}".strip())]
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_TOOLS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_exactly_calls_and_answers_are_learned_for_any_text(
    templates: dict[str, ChatTemplate], name: str, data: st.DataObject
) -> None:
    chat = data.draw(chats(1 if name == "llama3.2" else 3))
    tools = data.draw(st.lists(definitions, max_size=2))
    found = learned_turns(templates[name], chat, tools)
    answers = [turn for turn in chat if turn.role == "assistant"]
    thought = "<think>\n\n</think>\n\n"
    expected = [
        (written(name, turn) if turn.calls else turn.content) + WITH_TOOLS[name] for turn in answers
    ]
    assert [text.removeprefix(thought) for text in found] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_TOOLS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tools_and_calls_are_rendered_as_in_transformers(
    templates: dict[str, ChatTemplate], name: str, data: st.DataObject
) -> None:
    # the date is the one thing that is another on purpose
    source = templates[name].source.replace("strftime_now(", "(")
    template = replace(templates[name], source=source, tool_source=source)
    chat = data.draw(chats(1 if name == "llama3.2" else 3))
    tools = data.draw(st.lists(definitions, max_size=2))
    expected = as_transformers(template, chat, tools)
    assert render(template, chat, tools) == expected
    ids, _ = learned_tokens(template, render_turns(template, chat, tools))
    assert template.tokenizer.decode(ids) == expected


def test_qwen3_renders_reasoning_before_calls(
    templates: dict[str, ChatTemplate],
) -> None:
    chat = [ASK, calling(OSLO, ROME, reasoning="Hm"), RAIN, SUN, SAY]
    expected = as_transformers(templates["qwen3"], chat, TOOLS)
    ids, _ = learned_tokens(templates["qwen3"], render_turns(templates["qwen3"], chat, TOOLS))
    assert templates["qwen3"].tokenizer.decode(ids) == expected


def test_an_end_token_inside_arguments_ends_nothing(templates: dict[str, ChatTemplate]) -> None:
    turn = calling(Call("f", {"<|im_end|>": ["<|im_end|>", {"a": "b<|im_end|>"}], "n": 1}))
    expected = [written("qwen2.5", turn) + "<|im_end|>"]
    assert learned_turns(templates["qwen2.5"], [ASK, turn]) == expected
    special = replace(templates["qwen2.5"], specials=None)
    assert learned_turns(special, [ASK, turn]) == expected
