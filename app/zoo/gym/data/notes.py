"""Warnings about data, the same in inspection and training."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zoo.gym.data.equality import count_equal
from zoo.gym.data.records import Message, Record
from zoo.gym.data.rows import Encoder, as_chat
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.data.units import Example

_UNSEEN = ("<image>", "<video>", "<audio>")
"""How data files mark the position of images, audio or video."""

_THINK_TAGS = ("<think>", "</think>")


def notes_of(
    records: Sequence[Record], encoder: Encoder, *, truncated: int, unlearned: int
) -> tuple[str, ...]:
    """Returns one warning per kind of problem in the data, most harmful first.

    Args:
        records: all usable rows, including held-out ones.
        encoder: the model's encoder.
        truncated: number of rows longer than `cutoff_len`.
        unlearned: number of rows without a learned token within `cutoff_len`.
    """
    return tuple(_notes(records, encoder, truncated, unlearned))


def _notes(
    records: Sequence[Record], encoder: Encoder, truncated: int, unlearned: int
) -> Iterator[str]:
    total, cutoff = len(records), encoder.options.cutoff_len
    if empty := sum(has_empty_answer(record) for record in records):
        yield f"{empty} of {total} rows with an empty answer: the model learns to say nothing there"
    texts = [_texts(record) for record in records]
    if unseen := sum(any(mark in text for text in row for mark in _UNSEEN) for row in texts):
        yield f"{unseen} of {total} rows with images, audio or video that the model does not see"
    yield from _special_words(texts, encoder)
    if unlearned:
        yield f"{counted(unlearned, 'row')} dropped: nothing to learn within cutoff_len {cutoff}"
    if truncated - unlearned > 0:
        yield f"{truncated - unlearned} of {total} rows truncated at cutoff_len {cutoff}"
    if equal := count_equal(records):
        yield f"{counted(equal, 'duplicate row')}: duplicates stay on one side of the split"


def _special_words(texts: Sequence[Sequence[str]], encoder: Encoder) -> Iterator[str]:
    pattern = encoder.any_special
    hits = [next((found for text in row if (found := pattern.search(text))), None) for row in texts]
    named = [found[0] for found in hits if found]
    if named:
        how = "read as plain text"
        if not encoder.options.split_special_tokens:
            how = "read as special tokens, which can forge a turn (split_special_tokens=false)"
        yield f"{len(named)} of {len(texts)} rows with text like {named[0]!r}: {how}"


def _texts(record: Record) -> list[str]:
    if record.kind == "text":
        return [record.text]
    return [part for turn in as_chat(record) for part in (turn.content, turn.reasoning) if part]


def has_empty_answer(record: Record) -> bool:
    """Returns whether an answer of a row has no text."""
    return record.kind != "text" and any(map(_is_empty, as_chat(record)))


def _is_empty(turn: Message) -> bool:
    return turn.role == "assistant" and not turn.content.strip()


def require_words(examples: "Sequence[Example]", encoder: Encoder) -> None:
    """Refuses examples in which only markers and whitespace would be learned.

    Raises:
        InputError: that is the case.
    """
    for example in examples:
        ids = [int(token) for token in example.ids[example.mask]]
        text = encoder.tokenizer.decode(
            [token for token in ids if token not in encoder.special_ids]
        )
        for tag in _THINK_TAGS:
            text = text.replace(tag, "")
        if text.strip():
            return
    if examples:
        raise InputError(
            "every answer is empty: expected text to learn, got only markers and whitespace",
            hint="zoo-gym data inspect FILE shows what is learned",
        )
