"""Turns rows into units of examples: token ids, and which of them are learned."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TypeVar

from zoo.gym.data.notes import require_words
from zoo.gym.data.reading.keys import row_weight
from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.data.records import Problem, Record
from zoo.gym.data.rendering.renderer import RenderLimitError, check_leaving
from zoo.gym.data.rows import (
    EncodedRow,
    EncodeOptions,
    Encoder,
    as_chat,
    encode_row,
    end_of,
    make_encoder,
    prompt_ids,
    require_embeddings,
    require_template,
    tokenise_text,
    with_bos,
)
from zoo.gym.data.tokenizer import Tokenizer
from zoo.gym.data.units import MARGIN, Example, Unit, alone, rated, rows_of, weighted, with_extra
from zoo.gym.errors import InputError

T = TypeVar("T")

MOST_STOPPED = 2
"""Rows that may exceed the limits of rendering before the data is refused."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The examples that a model can learn from.

    Attributes:
        units: one per row with learned tokens, in order: a pair has two examples; windows of text
            last. Those of many rows are encoded on access, see `zoo.gym.data.lazy`.
        truncated: number of rows longer than `cutoff_len`, including dropped ones.
        dropped_unlearned: number of rows dropped because they have no learned token within
            `cutoff_len`.
        longest: tokens of the longest row before truncation, texts aside.
        sampled: the number of rows that the counts are estimated from; 0 if all were counted.
        seen: units that are encoded; among them are the longest. All of them if none is sampled.
        tokens: tokens of all units, estimated if rows were sampled.
        lost: learned tokens beyond `cutoff_len`, of pairs those of the better answers; without
            those of dropped rows.
    """

    units: Sequence[Unit]
    problems: tuple[Problem, ...]
    truncated: int
    dropped_unlearned: int
    longest: int = 0
    sampled: int = 0
    seen: Sequence[Unit] = ()
    tokens: int = 0
    lost: int = 0

    @property
    def examples(self) -> tuple[Example, ...]:
        """The rows of all units."""
        return rows_of(self.units)


def encode_records(
    records: Sequence[Record], tokenizer: Tokenizer, options: EncodeOptions
) -> Encoded:
    """Turns rows into examples.

    Chats are rendered with the model's own template, and the assistant's turns are learned. A
    prompt with its completion becomes a chat of two turns; for a model without a template they are
    concatenated and the completion is learned. Texts are joined by blank lines into documents. Each
    begins with the beginning-of-text token, if there is one, which is only read, and ends, with
    `append_eos`, with the end-of-text token. All documents are one stream, cut into windows.

    Raises:
        InputError: chat for a model without a chat template, or no row has a learned token
            within `cutoff_len`.
    """
    encoder = make_encoder(tokenizer, options)
    encoded = encode_all(encoder, records)
    if not encoded.units and (dropped := encoded.dropped_unlearned):
        raise InputError(
            f"no row has a token to learn within cutoff_len {options.cutoff_len}: expected part of "
            f"an answer, got {dropped} rows whose answers start later",
            hint=f"raise cutoff_len: the longest row has {encoded.longest} tokens",
            code="data.nothing_to_learn",
        )
    if not encoded.units:
        problems = [str(problem) for problem in encoded.problems]
        raise InputError((*problems, "no row has a token to learn")[0], code="data.no_usable_row")
    require_words([row for row in encoded.examples if row.record is None], encoder)
    return encoded


def encode_all(encoder: Encoder, records: Sequence[Record]) -> Encoded:
    """Turns rows into examples as `encode_records` does; there may be none.

    Raises:
        InputError: chat for a model without a chat template.
    """
    cutoff_len = encoder.options.cutoff_len
    rows, problems = encode_rows(encoder, [r for r in records if r.kind not in ("prompt", "text")])
    cut = [_cut_unit(record, sides, cutoff_len) for record, sides in rows]
    units = [unit for unit in cut if unit is not None]
    dropped = len(cut) - len(units)
    prompts = [record for record in records if record.kind == "prompt"]
    examples, refused = _encode_each(encoder, prompts, partial(_prompt_example, encoder))
    units += alone(_text_examples(encoder, [r for r in records if r.kind == "text"]))
    units += alone(example for _, example in examples)
    lengths = [max(len(side.ids) for side in sides) for _, sides in rows]
    return Encoded(
        tuple(units),
        (*problems, *refused),
        truncated=sum(length > cutoff_len for length in lengths),
        dropped_unlearned=dropped,
        longest=max(lengths, default=0),
        seen=units,
        tokens=sum(unit.tokens for unit in units),
        lost=sum(lost_tokens(sides[0], cutoff_len) for _, sides in rows),
    )


def encode_rows(
    encoder: Encoder, records: Sequence[Record]
) -> tuple[list[tuple[Record, list[EncodedRow]]], list[Problem]]:
    """Returns the tokenized rows, not truncated, and the rows that the template refuses.

    A pair has two tokenized rows, the better answer first; other rows have one.

    Raises:
        InputError: chat for a model without a chat template, or a template that exceeds its
            limits repeatedly.
        InterruptedRunError: a stop was requested; see `interruptible`.
    """
    return _encode_each(
        encoder, records, lambda row: [encode_row(encoder, side) for side in row.sides or (row,)]
    )


def _encode_each(
    encoder: Encoder, records: Sequence[Record], encode: Callable[[Record], T]
) -> tuple[list[tuple[Record, T]], list[Problem]]:
    """Returns the encoded form of each row, and the rows that are refused."""
    rows: list[tuple[Record, T]] = []
    problems: list[Problem] = []
    stopped = 0
    for record in records:
        check_leaving()
        for side in record.sides or (record,):
            require_template(encoder, side)
        try:
            rows.append((record, encode(record)))
        except InputError as error:
            stopped += isinstance(error, RenderLimitError)
            if stopped == MOST_STOPPED:  # every further row would take just as long
                raise
            problems.append(Problem(record.source, error.message))
    return rows, problems


def _cut_unit(record: Record, sides: Sequence[EncodedRow], cutoff_len: int) -> Unit | None:
    """Returns the examples of a row, or None if truncation leaves nothing to learn.

    Nothing is left of a pair either if truncation makes its sides equal.
    """
    import numpy as np

    cut = [cut_row(side, record.source, cutoff_len) for side in sides]
    examples = [example for example in cut if example is not None]
    if len(examples) < len(sides):
        return None
    if len(examples) == 2 and np.array_equal(examples[0].ids, examples[1].ids):
        return None
    if record.margin is not None:
        examples = [with_extra(example, MARGIN, record.margin) for example in examples]
    if record.good is not None:
        examples = [rated(example, good=record.good) for example in examples]
    if record.sides:
        examples = [weighted(example, record.weight) for example in examples]
    return Unit(tuple(examples))


def lost_tokens(row: EncodedRow, cutoff_len: int) -> int:
    """Returns how many learned tokens the cut loses; 0 for a row without learned tokens before."""
    return sum(row.learned[cutoff_len:]) if any(row.learned[1:cutoff_len]) else 0


def cut_row(row: EncodedRow, source: str, cutoff_len: int) -> Example | None:
    """Returns the start of a row as an example, or None if no token in it is learned."""
    import numpy as np

    learned = [False, *row.learned[1:cutoff_len]]
    if not any(learned):
        return None
    ids = np.array(row.ids[:cutoff_len], dtype=np.int64)
    return Example(ids, np.array(learned, dtype=np.bool_), source, len(row.ids) > cutoff_len)


def _prompt_example(encoder: Encoder, record: Record) -> Example:
    """Returns a prompt in tokens, none of them learned, with the weight of its answers."""
    import numpy as np

    options = encoder.options
    weight = row_weight(dict(record.metadata))
    ids = prompt_ids(encoder, as_chat(record), record.tools)
    most = options.cutoff_len - options.answer_tokens
    if len(ids) > most:
        raise InputError(
            f"expected a prompt of at most {most} tokens, because an answer may take "
            f"{options.answer_tokens} of {options.cutoff_len}, got {len(ids)}",
            code="data.long_prompt",
        )
    row, mask = np.array(ids, dtype=np.int64), np.zeros(len(ids), dtype=np.bool_)
    return weighted(Example(row, mask, record.source, truncated=False, record=record), weight)


def _text_examples(encoder: Encoder, records: Sequence[Record]) -> list[Example]:
    """Returns windows over the stream of all documents; each is named by the text it starts in."""
    import numpy as np

    ids: list[int] = []
    learned: list[bool] = []
    starts: list[int] = []  # in `ids`, of each text
    for document in _documents(encoder, records):
        tokens = tokenise_text(encoder, BLANK_LINE.join(text.text for text in document))
        row = [*tokens.ids, *end_of(encoder, document[-1])]
        read = with_bos(encoder.tokenizer, [])
        characters = accumulate((len(text.text) + len(BLANK_LINE) for text in document), initial=0)
        begins = [len(read) + tokens.first_from(start) for start in [*characters][1:-1]]
        starts += [len(ids) + begin for begin in [0, *begins]]
        ids += read + row
        learned += [False] * len(read) + [True] * len(row)
    require_embeddings(encoder, ids)
    examples: list[Example] = []
    for start, stop in windows(len(ids), encoder.options.cutoff_len):
        mask = np.array([False, *learned[start + 1 : stop]], dtype=np.bool_)
        source = records[bisect_right(starts, start) - 1].source
        row_ids = np.array(ids[start:stop], dtype=np.int64)
        if mask.any():
            examples.append(Example(row_ids, mask, source, truncated=False))
    return examples


def windows(length: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields start and stop of windows over a stream of tokens.

    Adjacent windows share one token: the last of a window is the first of the next, where it is
    only read. So every token except the first of the stream is learned exactly once.

    Args:
        size: number of tokens in a window, at least 2; the last window may be shorter.
    """
    for start in range(0, length - 1, size - 1):
        yield start, min(start + size, length)


def _documents(encoder: Encoder, records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yields the texts of each document; without `append_eos`, all are one."""
    document: list[Record] = []
    for record in records:
        files = {text.source.rpartition(":")[0] for text in (*document[-1:], record)}
        if encoder.options.append_eos and len(files) > 1:
            yield document  # its end was left out
            document = []
        document.append(record)
        if end_of(encoder, record):
            yield document
            document = []
    if document:
        yield document
