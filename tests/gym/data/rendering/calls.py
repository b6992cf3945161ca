"""Tools, calls and chats for tests, and what of them is learned and rendered."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from zoo.gym.data.records import Call, Message, Tools
from zoo.gym.data.rendering.mask import learned_tokens, render_turns
from zoo.gym.data.rendering.template import ChatTemplate, chat_template

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
