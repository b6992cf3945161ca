"""Tokenizes one row: a chat with the model's template, or prompt and completion without one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.data.records import Message, Record, Tools, split_thinking
from zoo.gym.data.rendering.marked import render_marked
from zoo.gym.data.rendering.mask import (
    Rendered,
    dropped_blocks,
    end_markers,
    learned_tokens,
    render_turns,
    tokenise_chat,
)
from zoo.gym.data.rendering.special import SpecialTokens, special_tokens
from zoo.gym.data.rendering.template import ChatTemplate, chat_template
from zoo.gym.data.tokenizer import Tokenizer, Tokens, stop_ids, tokenise
from zoo.gym.errors import InputError

Think = Literal["template", "keep", "drop"]


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How rows become tokens.

    Attributes:
        cutoff_len: the maximum number of tokens in an example; a chat is truncated at its end, a
            text is cut into windows.
        think: `template` passes reasoning to the model's template, which may omit that of earlier
            turns, or puts it before the answer as a think block if the template does not support
            reasoning; `keep` also writes, as a think block, whatever the template omitted; `drop`
            removes reasoning from the data before rendering. Whatever is in the rendered turn is
            learned.
        date: the date that a template may print, `2024-07-26`.
        split_special_tokens: the text of special tokens in the data is plain text; only the
            template writes special tokens.
        vocabulary: the number of tokens that the model has embeddings for; None if unknown.
        answer_tokens: of `cutoff_len`, what a prompt without an answer leaves free for one.
        joint: what ends a prompt without an answer, for a model without a chat template.
        append_eos: the end-of-text token is learned after each document of text.
        thinking: the variable `enable_thinking` of the template; None leaves it to the template.
    """

    cutoff_len: int
    think: Think = "template"
    date: str = "2024-07-26"
    split_special_tokens: bool = True
    vocabulary: int | None = None
    answer_tokens: int = 1
    joint: str = ""
    append_eos: bool = False
    thinking: bool | None = None


class EncodedRow(NamedTuple):
    """A tokenized row before truncation."""

    ids: list[int]
    learned: list[bool]


@dataclass(frozen=True, slots=True)
class Encoder:
    """A tokenizer with its template, for rows under one set of options.

    `specials` is None if the data may contain special tokens.
    """

    tokenizer: Tokenizer
    template: ChatTemplate | None
    options: EncodeOptions
    specials: SpecialTokens | None

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens, whether the data may contain them or not."""
        return special_tokens(self.tokenizer).ids


def make_encoder(tokenizer: Tokenizer, options: EncodeOptions) -> Encoder:
    """Returns an encoder.

    Raises:
        InputError: `cutoff_len` is below 2, or `date` is not a date; see also `chat_template`.
    """
    if options.cutoff_len < 2:
        raise InputError(
            f"cutoff_len: expected at least 2 tokens, got {options.cutoff_len}",
            code="data.bad_cutoff",
        )
    split = options.split_special_tokens
    template = chat_template(
        tokenizer, options.date, split_special_tokens=split, thinking=options.thinking
    )
    specials = template.specials if template else special_tokens(tokenizer) if split else None
    return Encoder(tokenizer, template, options, specials)


def require_embeddings(encoder: Encoder, ids: Iterable[int]) -> None:
    """Refuses tokens that the model has no embeddings for.

    Raises:
        InputError: there is such a token.
    """
    size = encoder.options.vocabulary
    highest = max(ids, default=0)
    if size is not None and highest >= size:
        word = encoder.tokenizer.decode([highest])
        raise InputError(
            f"token {highest} ({word!r}): expected one of the {size} tokens that the model has "
            "embeddings for",
            hint="the tokenizer is from another model, or the model was not resized for it",
            code="data.no_embedding",
        )


def tokenise_text(encoder: Encoder, text: str, cuts: Sequence[int] = ()) -> Tokens:
    """Returns the tokens of untrusted text.

    Raises:
        InputError: the tokenizer would read part of it as a special token.
    """
    if encoder.specials is None:
        return tokenise(encoder.tokenizer, text, cuts)
    return encoder.specials.tokenise_text(text, cuts)


def require_template(encoder: Encoder, record: Record) -> None:
    """Refuses chat, and tools, for a model without a chat template.

    Raises:
        InputError: the row is chat or has tools, and the model has no template.
    """
    if encoder.template is not None:
        return
    problem = f"but the model {encoder.tokenizer.name_or_path} has no chat template"
    if record.tools or any(turn.calls or turn.role == "tool" for turn in record.messages):
        raise InputError(
            f"{record.source}: tools, {problem}: expected rows without tools and tool calls",
            hint="use a chat model with a template that renders tools",
            code="data.no_chat_template",
        )
    if record.kind == "chat":
        raise InputError(
            f"{record.source}: chat data, {problem}: expected rows of prompt and completion, or of "
            "text",
            hint="give the template that it learns, such as template=chatml, use a chat model, or "
            "write the rows as prompt and completion",
            code="data.no_chat_template",
        )


def encode_row(encoder: Encoder, record: Record) -> EncodedRow:
    """Returns all tokens of one row, or of one of the `sides` of a pair or a rated answer.

    Raises:
        InputError: the model has no chat template and needs one, or its template refuses the row.
    """
    if record.kind == "text":
        tokens = [*tokenise_text(encoder, record.text).ids, *end_of(encoder, record)]
        ids = with_bos(encoder.tokenizer, tokens)
        row = EncodedRow(ids, [True] * len(ids))
    elif record.kind == "prompt":
        ids = prompt_ids(encoder, as_chat(record), record.tools)
        row = EncodedRow(ids, [False] * len(ids))
    elif encoder.template is not None:
        think, turns = encoder.options.think, as_chat(record)
        chat = render_turns(
            encoder.template, _thinking(turns, think), record.tools, keep_thinking=think == "keep"
        )
        row = EncodedRow(*learned_tokens(encoder.template, chat))
    else:
        require_template(encoder, record)
        row = _completion_row(encoder, record)
    require_embeddings(encoder, row.ids)
    return row


def as_chat(record: Record) -> tuple[Message, ...]:
    """Returns the turns of a chat or a prompt, with its completion or a pair's better answer."""
    if record.kind in ("pair", "rated"):
        return as_chat(record.sides[0])
    if record.kind == "chat":
        return record.messages
    prompt = Message("user", record.prompt)
    if record.kind == "prompt":
        return (*record.messages, prompt) if record.prompt else record.messages
    reasoning, answer = split_thinking(record.completion)
    return (*record.messages, prompt, Message("assistant", answer, reasoning))


def tools_of(record: Record) -> Tools:
    """Returns the definitions of tools of a row, or of the answers that it compares."""
    return record.sides[0].tools if record.sides else record.tools


def with_answer(record: Record) -> Record | None:
    """Returns a prompt as a chat with its reference or its right answer; None if it has neither."""
    answer = record.completion or record.answer
    if isinstance(answer, list | tuple):
        answer = next(iter(answer), None)
    if answer is None or not str(answer).strip():
        return None
    if record.prompt:
        return replace(record, kind="completion", completion=str(answer))
    turns = (*as_chat(record), Message("assistant", str(answer)))
    return replace(record, kind="chat", messages=turns)


def _thinking(messages: Sequence[Message], think: Think) -> Sequence[Message]:
    drop = think == "drop"
    return [replace(message, reasoning=None) for message in messages] if drop else messages


def _completion_row(encoder: Encoder, record: Record) -> EncodedRow:
    """Tokenizes prompt and completion without a template; learns the end-of-text token."""
    tokenizer = encoder.tokenizer
    turns = [message.content for message in record.messages]
    prompt = BLANK_LINE.join([*turns, record.prompt]) + record.joint
    tokens = tokenise_text(encoder, prompt + record.completion, [len(prompt)])
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    ids = with_bos(tokenizer, [*tokens.ids, *end])
    answer = len(tokens.ids) - tokens.first_from(len(prompt)) + len(end)
    return EncodedRow(ids, [False] * (len(ids) - answer) + [True] * answer)


def with_bos(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Returns the tokens after the beginning-of-text token, if the tokenizer has one."""
    return ids if tokenizer.bos_token_id is None else [tokenizer.bos_token_id, *ids]


def end_of(encoder: Encoder, record: Record) -> list[int]:
    """Returns what is learned after a text: the end-of-text token if a document ends there."""
    end = encoder.tokenizer.eos_token_id
    return [end] if record.ends and encoder.options.append_eos and end is not None else []


def require_unicode(text: str, what: str) -> None:
    """Refuses lone surrogates, which represent bytes that are not UTF-8.

    Python decodes such bytes from a pipe or command line this way; no tokenizer accepts them.

    Raises:
        InputError: there is one.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        lone = ord(text[error.start])
        got = f"an unpaired surrogate, \\u{lone:04x}"
        if 0xDC80 <= lone <= 0xDCFF:
            got = f"the byte 0x{lone - 0xDC00:02x}"
        raise InputError(
            f"{what}: not UTF-8 text: got {got} at character {error.start + 1}",
            code="data.bad_encoding",
        ) from None


def encode_prompt(
    messages: Sequence[Message], tokenizer: Tokenizer, options: EncodeOptions, tools: Tools = ()
) -> list[int]:
    """Returns the tokens of a prompt, the same as before an answer in training.

    Args:
        messages: the turns so far; the last one is the user's, or a tool's. A model without a chat
            template reads their contents, joined by blank lines.
        tools: definitions of the tools that may be called.

    Raises:
        InputError: a turn is not Unicode text, or the model's template refuses the chat.
    """
    names = {"system": "system prompt", "user": "prompt"}
    for message in messages:
        require_unicode(message.content, names.get(message.role, message.role))
    return prompt_ids(make_encoder(tokenizer, options), messages, tools)


def prompt_ids(encoder: Encoder, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
    """Returns the tokens of a prompt; see `encode_prompt`.

    Args:
        tools: definitions of tools, for a model with a chat template.

    Raises:
        InputError: the model's template refuses the chat.
    """
    if encoder.template is None:
        text = BLANK_LINE.join(message.content for message in messages) + encoder.options.joint
        ids = with_bos(encoder.tokenizer, tokenise_text(encoder, text).ids)
    else:
        turns = _thinking(messages, encoder.options.think)
        chat = render_marked(encoder.template, turns, tools=tools, generation_prompt=True)
        if bare := dropped_blocks(chat):
            chat = render_marked(encoder.template, turns, bare, tools, generation_prompt=True)
        rendered = Rendered(chat.clean(0, len(chat.text)), (), chat.plain)
        ids = tokenise_chat(encoder.template, rendered).ids
    require_embeddings(encoder, ids)
    return ids


def chat_stops(folder: Path, tokenizer: Tokenizer, options: EncodeOptions) -> tuple[int, ...]:
    """Returns the tokens that end an answer: those in its files, and the marker it learned.

    They differ if a chat template was added to a base model with a config that still specifies the
    end-of-text token: an answer would continue past its end into further turns.
    """
    template = make_encoder(tokenizer, options).template
    markers = end_markers(template) if template else frozenset[int]()
    return tuple(sorted(markers.union(stop_ids(folder, tokenizer))))
