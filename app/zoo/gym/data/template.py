"""Renders a chat with the model's own template; the date that a template prints is pinned."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import cast

from zoo.gym.data.records import Message
from zoo.gym.data.special import SpecialTokens, special_tokens
from zoo.gym.data.thinking import think_block
from zoo.gym.data.tokenizer import Tokenizer, stop_ids
from zoo.gym.errors import InputError

_READS_REASONING = re.compile(r"(?:\.|\[\s*['\"]|get\(\s*['\"])(?:reasoning_content|thinking)\b")
_DATE_CODES = "AaBbdeHIjMmpSUwYy"


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A model's template, ready to render.

    Attributes:
        tokenizer: whose template it is.
        source: the template, its date pinned.
        reads_reasoning: whether it places reasoning itself; if not, reasoning stands in front of
            the answer as a think block.
        markers: ids of the tokens that a tokenizer adds to its vocabulary; one of them ends a turn.
        stops: ids of the tokens that end an answer when the model generates.
        specials: the special tokens, which are plain text inside contents; None lets contents
            hold them.
    """

    tokenizer: Tokenizer = field(repr=False)
    source: str = field(repr=False)
    reads_reasoning: bool
    markers: frozenset[int] = field(repr=False)
    stops: frozenset[int] = field(repr=False)
    specials: SpecialTokens | None = field(repr=False)


def chat_template(
    tokenizer: Tokenizer, today: str, *, split_special_tokens: bool = True
) -> ChatTemplate | None:
    """Returns the template of a model, or None where it has none.

    Args:
        tokenizer: the model's tokenizer.
        today: what the template prints as today, `2024-07-26`.
        split_special_tokens: special tokens inside contents are plain text.

    Raises:
        InputError: `today` is no date.
    """
    if not tokenizer.chat_template:
        return None
    source = tokenizer.get_chat_template()
    reads = _READS_REASONING.search(source) is not None
    markers = frozenset(tokenizer.added_tokens_decoder)
    stops = frozenset(stop_ids(Path(tokenizer.name_or_path), tokenizer))
    specials = special_tokens(tokenizer) if split_special_tokens else None
    return ChatTemplate(tokenizer, _pin_date(source, today), reads, markers, stops, specials)


def _pin_date(source: str, today: str) -> str:
    """Puts a macro of the name `strftime_now` in front, which knows one day only, at midnight.

    A variable would not do: transformers hands no functions to a template.
    """
    try:
        day = date.fromisoformat(today)
    except ValueError:
        raise InputError(f"date: expected a day like 2024-07-26, got {today!r}") from None
    if "strftime_now" not in source:
        return source
    filters = "".join(f"|replace('%{code}', '{day.strftime('%' + code)}')" for code in _DATE_CODES)
    return (
        f"{{%- macro strftime_now(format) -%}}{{{{ format{filters} }}}}{{%- endmacro %}}\n{source}"
    )


def render(
    template: ChatTemplate, messages: Sequence[Message], *, generation_prompt: bool = False
) -> str:
    """Returns a chat as the model reads it.

    Args:
        template: the model's template.
        messages: the turns.
        generation_prompt: end with what stands before an assistant's next turn.

    Raises:
        InputError: the template refuses the chat; its reason is given.
    """
    from jinja2 import TemplateError

    chat = [_as_dict(message, reads_reasoning=template.reads_reasoning) for message in messages]
    try:
        text = template.tokenizer.apply_chat_template(
            chat,
            chat_template=template.source,
            add_generation_prompt=generation_prompt,
            tokenize=False,
        )
    except TemplateError as error:
        raise InputError(f"the model's chat template refuses the chat: {error}") from None
    return cast("str", text)


def _as_dict(message: Message, *, reads_reasoning: bool) -> dict[str, str]:
    turn = {"role": message.role, "content": message.content}
    if message.reasoning is None:
        return turn
    if reads_reasoning:
        return {**turn, "reasoning_content": message.reasoning}
    return {**turn, "content": think_block(message.reasoning) + message.content}
