"""Rows of a file as a model reads them, a page at a time.

Nothing is counted here; `zoo.gym.data.inspection` does that.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from zoo.gym.data.encode import encode_rows
from zoo.gym.data.inspection import Piece, pieces_of
from zoo.gym.data.own_tokenizer import own_tokenizer
from zoo.gym.data.reading.columns import DETECTED, Layout
from zoo.gym.data.reading.dataset import read_in_order
from zoo.gym.data.records import LEARNED, Kind, Problem, Record
from zoo.gym.data.rows import EncodeOptions, Encoder, make_encoder
from zoo.gym.data.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row as the model reads it, or what is wrong with it.

    Attributes:
        row: its number in the file, from 1; blank lines do not count.
        source: `file:line`.
        kind: chat, completion, text, pair, prompt or rated; empty for a row with a problem.
        tokens: its length before the cut.
        pieces: the tokens within `cutoff_len`, learned or only read.
        rejected: of a pair: its worse answer with the prompt; else empty.
        answer: of a prompt: what a reward compares with, as text; else empty.
        good: whether a rated answer is a good one; else None.
        problem: why the row cannot be used; empty for a usable one.
    """

    row: int
    source: str
    kind: str = ""
    tokens: int = 0
    pieces: tuple[Piece, ...] = ()
    rejected: tuple[Piece, ...] = ()
    answer: str = ""
    good: bool | None = None
    problem: str = ""


def show_rows(
    path: Path,
    folder_of_model: Path,
    options: EncodeOptions,
    kinds: Set[Kind] = LEARNED,
    layout: Layout = DETECTED,
    template: str | None = None,
    *,
    first: int = 1,
    count: int = 20,
    find: str = "",
) -> list[ShownRow]:
    """Returns rows of a file in order.

    Args:
        first: the number of the first row to show, from 1.
        count: the most rows to show.
        find: only rows with this text, in any case, in what the model reads.

    Raises:
        NotAvailableError: the file or the model is missing.
        InputError: the file is not data, or the model has no tokenizer, or no template for chat.
    """
    tokenizer = own_tokenizer(folder_of_model, template=template).tokenizer
    encoder = make_encoder(tokenizer, options)
    rows = enumerate(read_in_order(path, kinds, layout=layout, skip=first - 1), first)
    shown = (
        each
        for number, records in rows
        if find.lower() in _text_of(records)
        for each in _shown(encoder, tokenizer, number, records)
    )
    return list(islice(shown, count))


def _shown(
    encoder: Encoder, tokenizer: Tokenizer, number: int, records: tuple[Record, ...] | Problem
) -> Iterator[ShownRow]:
    if isinstance(records, Problem):
        yield ShownRow(number, records.where, problem=records.reason)
        return
    encoded, refused = encode_rows(encoder, records)
    cutoff_len = encoder.options.cutoff_len
    for record, sides in encoded:
        pieces = [tuple(pieces_of(tokenizer, side, cutoff_len)) for side in sides]
        yield ShownRow(
            number,
            record.source,
            record.kind,
            len(sides[0].ids),
            pieces[0],
            pieces[1] if len(pieces) > 1 else (),
            "" if record.answer is None else str(record.answer),
            record.good,
        )
    for problem in refused:
        yield ShownRow(number, problem.where, problem=problem.reason)


def _text_of(records: tuple[Record, ...] | Problem) -> str:
    """Returns the words of a row in lower case; of a row with a problem the reason."""
    if isinstance(records, Problem):
        return records.reason.lower()
    texts = [
        text
        for record in records
        for side in record.sides or (record,)
        for text in (
            side.prompt,
            side.completion,
            side.text,
            "" if side.answer is None else str(side.answer),
            *(turn.content for turn in side.messages),
        )
    ]
    return "\n".join(texts).lower()
