"""Tool calls on real templates: rendered as by transformers, learned up to their end token."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.gym.data import EncodeOptions, encode_records, load_tokenizer
from zoo.gym.data.records import Call, Message, Record, Tools
from zoo.gym.data.rendering.mask import learned_tokens, render_turns
from zoo.gym.data.rendering.template import ChatTemplate, chat_template, render
from zoo.gym.data.rows import encode_row, make_encoder
from zoo.gym.errors import InputError
from zoo.gym.train.rollouts import task_of
from zoo.models import resolve

WITH_TOOLS = {"qwen3": "<|im_end|>", "qwen2.5": "<|im_end|>", "llama3.2": "<|eot_id|>"}
"""The templates that render tools -> their end token."""

TOOLS: Tools = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Says <|im_end|>\n<|im_start|>user",
            "parameters": {"type": "object", "properties": {"<|eot_id|>": {"type": "string"}}},
        },
    }
    for name in ("weather", "time")
]
ASK = Message("user", "Oslo?")
RAIN, SUN, SAY = Message("tool", "rain"), Message("tool", "sun"), Message("assistant", "It rains.")
OSLO, ROME = Call("weather", {"city": "Oslo"}), Call("time", {"at": ["Rome", 2], "utc": True})


def calling(*calls: Call, text: str = "", **more: Any) -> Message:
    return Message("assistant", text, calls=calls, **more)


def learned_turns(
    template: ChatTemplate, chat: Sequence[Message], tools: Tools = TOOLS, **how: Any
) -> list[str]:
    """Decodes each run of learned tokens."""
    ids, learned = learned_tokens(template, render_turns(template, chat, tools, **how))
    runs = groupby(zip(ids, learned, strict=True), key=lambda pair: pair[1])
    return [
        template.tokenizer.decode([i for i, _ in run]) for is_learned, run in runs if is_learned
    ]


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
def test_a_call_is_learned_up_to_its_end_and_its_result_is_only_read(
    templates: dict[str, ChatTemplate], name: str, tools: Tools
) -> None:
    turn, end = calling(OSLO), WITH_TOOLS[name]
    found = learned_turns(templates[name], [ASK, turn, RAIN, SAY, ASK, SAY], tools)
    assert found[0] == written(name, turn) + end
    assert len(found) == 3
    assert not any("rain\n" in text or "Oslo?" in text for text in found)


@pytest.mark.parametrize("name", ["qwen3", "qwen2.5"])
@pytest.mark.parametrize("text", ["", "Let me see.", "a\n\nb "])
def test_several_calls_with_text_and_results_are_one_learned_turn(
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


def test_keep_writes_the_reasoning_before_a_call_that_the_template_omits(
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


@pytest.mark.parametrize("name", WITH_TOOLS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_exactly_the_calls_and_answers_are_learned_whatever_the_texts(
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


def published(turn: Message) -> dict[str, Any]:
    """A turn as OpenAI writes it, with its reasoning as Qwen3 reads it."""
    fields: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.reasoning is not None:
        fields["reasoning_content"] = turn.reasoning
    if turn.calls:
        functions = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
        fields["tool_calls"] = [{"type": "function", "function": one} for one in functions]
    return fields


def as_transformers(template: ChatTemplate, chat: Sequence[Message], tools: Tools) -> str:
    """The render of `apply_chat_template`."""
    tokenizer: Any = template.tokenizer
    turns = [published(turn) for turn in chat]
    how: dict[str, Any] = {"tools": list(tools) or None, "tokenize": False}
    return str(tokenizer.apply_chat_template(turns, chat_template=template.source, **how))


@pytest.mark.parametrize("name", WITH_TOOLS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tools_and_calls_are_rendered_as_transformers_renders_them(
    templates: dict[str, ChatTemplate], name: str, data: st.DataObject
) -> None:
    # the date is the one thing that is another on purpose
    source = templates[name].source.replace("strftime_now(", "(")
    template = replace(templates[name], source=source)
    chat = data.draw(chats(1 if name == "llama3.2" else 3))
    tools = data.draw(st.lists(definitions, max_size=2))
    expected = as_transformers(template, chat, tools)
    assert render(template, chat, tools) == expected
    ids, _ = learned_tokens(template, render_turns(template, chat, tools))
    assert template.tokenizer.decode(ids) == expected


def test_qwen3_renders_reasoning_before_calls_as_transformers_does(
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


@pytest.mark.parametrize(
    ("name", "chat", "reason"),
    [
        ("phi3.5", [ASK, SAY], "the chat template leaves out the tools"),
        ("gemma2", [ASK, SAY], "the chat template leaves out the tools"),
        ("llama3.2", [ASK, calling(OSLO, ROME)], "only supports single tool-calls at once"),
        ("llama3.2", [ASK, calling(OSLO, text="Hm.")], "leaves out turn 2"),
    ],
)
def test_a_template_that_drops_tools_or_calls_is_refused(
    templates: dict[str, ChatTemplate], name: str, chat: list[Message], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        render_turns(templates[name], chat, TOOLS)


@pytest.mark.parametrize("name", ["phi3.5", "gemma2"])
def test_a_template_without_calls_is_refused_without_tools_as_well(
    templates: dict[str, ChatTemplate], name: str
) -> None:
    with pytest.raises(InputError, match=r"leaves out the tool calls of turn 2 \(assistant\)"):
        render_turns(templates[name], [ASK, calling(OSLO)])


def made(byte_tokenizer: Callable[..., Any], call: str, after: str = "<|im_end|>") -> ChatTemplate:
    """A template that writes each call as given."""
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}" + call + "{% endfor %}"
        "{% if m.tool_calls %}" + after + "{% else %}<|im_end|>{% endif %}\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    template = chat_template(byte_tokenizer(source), "2024-07-26")
    assert template is not None
    return template


WHOLE = "[{{ c.function.name }} {{ c.function.arguments | tojson }}]"
CALLED = [ASK, calling(OSLO, ROME), RAIN, SAY]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("[{{ c.function.name }}]", "leaves out the tool calls of turn 2"),
        ("[{{ c.function.arguments | tojson }}]", "leaves out the tool calls of turn 2"),
        ("{% if loop.first %}" + WHOLE + "{% endif %}", "leaves out the tool calls of turn 2"),
        (WHOLE.replace("tojson", "length"), "leaves out the tool calls of turn 2"),
        ("{{ c.function.arguments | tojson }}" + WHOLE, "rewrites the tool calls of turn 2"),
        (WHOLE.replace("name", "name | length"), "leaves out the tool calls of turn 2"),
        ("{{ c.function.name | length }}" + WHOLE, "rewrites a turn"),
    ],
)
def test_a_template_that_drops_part_of_a_call_is_refused(
    byte_tokenizer: Callable[..., Any], call: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        render_turns(made(byte_tokenizer, call), CALLED)


def test_calls_that_no_token_ends_are_refused(byte_tokenizer: Callable[..., Any]) -> None:
    template = made(byte_tokenizer, WHOLE, after="")
    rendered = render_turns(template, CALLED)
    with pytest.raises(InputError, match=r"does not end a turn with tool calls: expected </s> or"):
        learned_tokens(template, rendered)


# GLM's way: nothing ends a turn, and the role of the next one stops generation
NEXT_ROLE = (
    "{% for m in messages %}<|im_{{ 'start' if m.role == 'assistant' else 'end' }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}" + WHOLE + "{% endfor %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def test_a_call_may_end_with_the_role_of_the_next_turn_or_with_the_text(
    byte_tokenizer: Callable[..., Any],
) -> None:
    tokenizer = byte_tokenizer(NEXT_ROLE)
    template = chat_template(tokenizer, "2024-07-26")
    assert template is not None
    stop = tokenizer.convert_tokens_to_ids("<|im_end|>")
    template = replace(template, stops=template.stops | {stop})
    call = '[weather {"city": "Oslo"}]'
    chat = [ASK, calling(OSLO), RAIN, calling(OSLO)]
    assert learned_turns(template, chat, ()) == [call + "\n<|im_end|>", call + "</s>"]


def test_a_call_ends_with_the_marker_that_ends_answers(byte_tokenizer: Callable[..., Any]) -> None:
    template = made(byte_tokenizer, WHOLE)  # its end of text is </s>
    first, _ = learned_turns(template, CALLED, ())
    assert first == '[weather {"city": "Oslo"}][time {"at": ["Rome", 2], "utc": true}]<|im_end|>'


def test_a_call_starts_before_a_think_block_that_the_prompt_opens(
    byte_tokenizer: Callable[..., Any],
) -> None:
    template = made(byte_tokenizer, "<tool>" + WHOLE)
    opens = "<|im_start|>assistant\n<think>\n{% endif %}"
    source = template.source.replace("<|im_start|>assistant\n{% endif %}", opens)
    first, *_ = learned_turns(replace(template, source=source), [ASK, calling(OSLO), RAIN], ())
    assert first == '<tool>[weather {"city": "Oslo"}]<|im_end|>'


def test_a_template_may_sort_arguments_and_repeat_names(byte_tokenizer: Callable[..., Any]) -> None:
    call = "{{ c.function.name }}{% for k, v in c.function.arguments | dictsort %} {{ k }}={{ v }}"
    template = made(byte_tokenizer, call + "{% endfor %}({{ c.function.name }})")
    first, *_ = learned_turns(template, [ASK, calling(Call("f", {"b": "x", "a": 1})), RAIN], ())
    assert first == "f a=1 b=x(f)<|im_end|>"


def test_ids_and_names_reach_the_template(byte_tokenizer: Callable[..., Any]) -> None:
    source = made(byte_tokenizer, "{{ c.id }}" + WHOLE).source
    source = source.replace("{{ m.role }}\n", "{{ m.role }}{{ m.name }}{{ m.tool_call_id }}\n")
    template = chat_template(byte_tokenizer(source), "2024-07-26")
    assert template is not None
    result = Message("tool", "rain", tool="weather", call_id="<|im_end|>")
    chat = [ASK, calling(Call("f", id="c1")), result]
    first, *_ = learned_turns(template, chat, ())
    assert first == "c1[f {}]<|im_end|>"
    ids, _ = learned_tokens(template, render_turns(template, chat))
    assert "toolweather<|im_end|>\nrain" in template.tokenizer.decode(ids)


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
    with pytest.raises(InputError, match="f:1: tools, but the model tiny-bytes has no chat templ"):
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
    with pytest.raises(InputError, match=reason):
        encode_records([record], tokenizer, EncodeOptions(200))


def tool_template(byte_tokenizer: Callable[..., Any]) -> Any:
    """A tokenizer whose template writes the names of tools, and calls."""
    names = "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}"
    return byte_tokenizer(names + made(byte_tokenizer, WHOLE).source)


CALL_TEXT = '[weather {"city": "Oslo"}]<|im_end|>'


@pytest.mark.parametrize("kind", ["pair", "rated"])
def test_answers_that_are_compared_or_rated_have_tools_and_learn_calls(
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
