"""Templates that drop or rewrite tool calls are refused; what others may do with a call."""

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
    ROME,
    SAY,
    TOOLS,
    WHOLE,
    calling,
    learned_turns,
    made,
)
from zoo.gym.data.records import Call, Message
from zoo.gym.data.rendering.mask import learned_tokens, render_turns
from zoo.gym.data.rendering.template import ChatTemplate, chat_template
from zoo.gym.errors import InputError

LOST = ("leaves out the tool calls of turn 2", "data.lost_calls")


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
def test_a_template_without_calls_is_refused_also_without_tools(
    templates: dict[str, ChatTemplate], name: str
) -> None:
    with raises("data.lost_calls", r"leaves out the tool calls of turn 2 \(assistant\)"):
        render_turns(templates[name], [ASK, calling(OSLO)])


@pytest.mark.parametrize(
    ("call", "reason", "code"),
    [
        ("[{{ c.function.name }}]", *LOST),
        ("[{{ c.function.arguments | tojson }}]", *LOST),
        ("{% if loop.first %}" + WHOLE + "{% endif %}", *LOST),
        (WHOLE.replace("tojson", "length"), *LOST),
        (
            "{{ c.function.arguments | tojson }}" + WHOLE,
            "rewrites the tool calls of turn 2",
            "data.rewritten_calls",
        ),
        (WHOLE.replace("name", "name | length"), *LOST),
        ("{{ c.function.name | length }}" + WHOLE, "rewrites a turn", "data.rewritten_turn"),
    ],
)
def test_a_template_that_drops_part_of_a_call_is_refused(
    byte_tokenizer: Callable[..., Any], call: str, reason: str, code: str
) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        render_turns(made(byte_tokenizer, call), CALLED)
    assert caught.value.code == code


def test_calls_that_no_token_ends_are_refused(byte_tokenizer: Callable[..., Any]) -> None:
    template = made(byte_tokenizer, WHOLE, after="")
    rendered = render_turns(template, CALLED)
    with raises("data.unended_calls") as caught:
        learned_tokens(template, rendered)
    assert caught.value.code == "data.unended_calls"


# GLM's way: nothing ends a turn, and the role of the next one stops generation
NEXT_ROLE = (
    "{% for m in messages %}<|im_{{ 'start' if m.role == 'assistant' else 'end' }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}" + WHOLE + "{% endfor %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def test_a_call_may_end_with_the_next_role_or_the_text(
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


def test_a_call_starts_before_the_think_block_of_its_prompt(
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
