"""Inspects data before training, with the model's own tokenizer and template."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any

from zoo.gym.data.encode import cut_row, encode_rows, lost_tokens
from zoo.gym.data.equality import related_rows
from zoo.gym.data.lazy import SAMPLED_ROWS, sample_of
from zoo.gym.data.notes import Figures, notes_of, require_words, survey
from zoo.gym.data.own_tokenizer import own_tokenizer
from zoo.gym.data.reading.columns import DETECTED, Layout
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.record_file import StoredRecords
from zoo.gym.data.records import LEARNED, Kind, Problem, Record
from zoo.gym.data.rows import (
    EncodedRow,
    EncodeOptions,
    Encoder,
    as_chat,
    make_encoder,
    prompt_ids,
    tools_of,
)
from zoo.gym.data.tokenizer import Tokenizer
from zoo.gym.data.units import Example
from zoo.gym.errors import InputError

_FIRST_BIN = 16


@dataclass(frozen=True, slots=True)
class Bin:
    """A bar of a histogram: the rows with `least` to `most` tokens."""

    least: int
    most: int
    rows: int


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The lengths of the rows in tokens: sum, percentiles, and a histogram of doubling width."""

    total: int
    p50: int
    p95: int
    longest: int
    histogram: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of a sequence of tokens, either learned or only read."""

    text: str
    learned: bool


@dataclass(frozen=True, slots=True)
class Repeat:
    """A row with the same content as an earlier one: `file:line` of both."""

    where: str
    of: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The inspection of a data set for one model.

    Attributes:
        problems: rows that cannot be used, including those that the template refuses.
        kinds: number of rows of each kind: chat, completion, text, pair, prompt.
        roles: number of turns by role; prompts and completions count as user and assistant.
        tokens: lengths of the untruncated rows; each text counts on its own.
        truncated: number of rows longer than that; texts are cut into windows and not counted.
        unlearned: number of rows without a learned token.
        duplicates: number of rows equal to an earlier one.
        empty_answers: number of rows in which an answer has neither text nor tool calls.
        with_reasoning: number of rows in which an answer has reasoning.
        with_tools: number of rows with definitions of tools or with tool calls.
        warnings: the same warnings as at the start of a training.
        refusal: why training would refuse the data, None where it would not.
        example_source: `file:line` of the example.
        prompt: what chat, samples and rewards ask for the answer of the example, which is all that
            the model reads before it; empty for texts.
        rejected: of a pair: its worse answer as the model reads it, with the prompt; else empty.
        example_good: of a rated answer: whether the example is a good one, or one to retain; else
            None.
        ratings: number of answers by rating, `good` (or to retain) and `bad` (or to forget); empty
            without rated answers.
        sampled: of many rows, how many were encoded: kinds, ratings, roles, lengths, and the rows
            truncated, unlearned, with reasoning or tools are estimated from these; 0 if all were.
        repeats: the first of the duplicates.
    """

    files: dict[str, str]
    model: str
    rows: int
    problems: tuple[Problem, ...]
    kinds: dict[str, int]
    roles: dict[str, int]
    tokens: TokenCounts
    cutoff_len: int
    truncated: int
    truncated_share: float
    unlearned: int
    unlearned_share: float
    duplicates: int
    empty_answers: int
    with_reasoning: int
    with_tools: int
    think: str
    date: str
    warnings: tuple[str, ...]
    refusal: str | None
    example_source: str
    example: tuple[Piece, ...]
    prompt: str
    rejected: tuple[Piece, ...]
    example_good: bool | None
    ratings: dict[str, int]
    sampled: int = 0
    repeats: tuple[Repeat, ...] = ()


def inspect_dataset(
    paths: Sequence[Path],
    folder_of_model: Path,
    options: EncodeOptions,
    kinds: Set[Kind] = LEARNED,
    layout: Layout = DETECTED,
    template: str | None = None,
) -> Inspection:
    """Reads data files and inspects them with a model's tokenizer and template.

    Args:
        kinds: the kinds of rows that the method learns from.
        template: a chat template, by name or a file, that replaces the model's own.

    Raises:
        NotAvailableError: a file or the model is missing.
        InputError: a file is not data, or the model has no tokenizer, or no template for chat.
    """
    data = read_dataset(paths, kinds=kinds, layout=layout)
    own = own_tokenizer(folder_of_model, template=template)
    encoder = make_encoder(own.tokenizer, options)
    sampled: Sequence[Record] = data.records
    if isinstance(data.records, StoredRecords) and len(data.records) > SAMPLED_ROWS:
        sampled = sample_of(data.records)
    many = sampled is not data.records
    encoded, refused = encode_rows(encoder, sampled)
    if not encoded:
        raise InputError(
            str(refused[0]),
            hint="the model's chat template refuses every row",
            code="data.no_usable_row",
        )
    rows = [(record, sides[0]) for record, sides in encoded]
    records = [record for record, _ in rows]
    chats = [(record, row) for record, row in rows if record.kind != "text"]
    examples = [_cut(record, row, options) for record, row in chats]
    scale = len(data.records) / len(sampled)
    truncated = sum(len(row.ids) > options.cutoff_len for _, row in chats)
    unlearned = sum(example is None for example in examples)
    refusal = _refusal(encoder, examples, rows)
    shown, sides = next((pair for pair in encoded if any(pair[1][0].learned)), encoded[0])
    surveyed = survey(data.records, encoder)
    compared = data.records if many else records
    related = related_rows(compared)
    figures = Figures(
        truncated=round(truncated * scale),
        unlearned=round(unlearned * scale),
        duplicates=related.duplicates,
        same_prompt=related.same_prompt,
        sampled=len(sampled) if many else 0,
        lost=round(sum(lost_tokens(row, options.cutoff_len) for _, row in chats) * scale),
    )
    pieces = [tuple(pieces_of(own.tokenizer, row, options.cutoff_len)) for row in sides]
    return Inspection(
        files=data.formats,
        model=str(folder_of_model),
        rows=round(len(rows) * scale),
        problems=(*data.problems, *refused),
        tokens=count_tokens([len(row.ids) for _, row in rows], scale),
        cutoff_len=options.cutoff_len,
        truncated=figures.truncated,
        truncated_share=truncated / len(rows),
        unlearned=figures.unlearned,
        unlearned_share=unlearned / len(rows),
        duplicates=figures.duplicates,
        empty_answers=surveyed.empty,
        think=options.think,
        date=options.date,
        warnings=(*own.notes, *data.notes, *filter(None, [refusal]), *notes_of(surveyed, figures)),
        refusal=refusal,
        example_source=shown.source,
        example=pieces[0],
        prompt=_prompt(encoder, shown, surveyed.common_joint),
        rejected=pieces[1] if len(pieces) > 1 else (),
        example_good=shown.good,
        sampled=figures.sampled,
        repeats=tuple(
            Repeat(compared[row].source, compared[first].source) for row, first in related.repeats
        ),
        **_counts(records, scale),
    )


def _counts(records: Sequence[Record], scale: float) -> dict[str, Any]:
    """Returns counts of rows and turns for an inspection; each record stands for `scale` rows."""
    chats = [() if record.kind == "text" else as_chat(record) for record in records]
    tools = map(tools_of, records)
    goods = [record.good for record in records if record.good is not None]
    ratings = {"good": sum(goods), "bad": len(goods) - sum(goods)} if goods else {}
    reasoning = sum(any(turn.reasoning for turn in chat) for chat in chats)
    with_tools = sum(
        bool(defined) or any(turn.calls for turn in chat)
        for defined, chat in zip(tools, chats, strict=True)
    )
    counts: dict[str, dict[str, int]] = {
        "kinds": Counter(record.kind for record in records),
        "roles": Counter(turn.role for chat in chats for turn in chat),
        "ratings": ratings,
    }
    scaled = {
        name: {key: round(count * scale) for key, count in group.items()}
        for name, group in counts.items()
    }
    return {
        **scaled,
        "with_reasoning": round(reasoning * scale),
        "with_tools": round(with_tools * scale),
    }


def _cut(record: Record, row: EncodedRow, options: EncodeOptions) -> Example | None:
    """Returns a row as an example; None if it has nothing to learn, or no room for an answer."""
    import numpy as np

    if record.kind != "prompt":
        return cut_row(row, "", options.cutoff_len)
    if len(row.ids) > options.cutoff_len - options.answer_tokens:
        return None
    ids = np.array(row.ids, dtype=np.int64)
    return Example(ids, np.zeros(len(ids), dtype=np.bool_), "", truncated=False)


def _refusal(
    encoder: Encoder, examples: Sequence[Example | None], rows: Sequence[tuple[Record, EncodedRow]]
) -> str | None:
    """Returns the error with which training would refuse the data, None if it would not."""
    kinds = {record.kind for record, _ in rows}
    learned = [example for example in examples if example is not None]
    if "text" in kinds or (kinds == {"prompt"} and learned):
        return None
    if not learned:
        return f"no row has anything to learn within cutoff_len {encoder.options.cutoff_len}"
    try:
        require_words(learned, encoder)
    except InputError as error:
        return error.message
    return None


def _prompt(encoder: Encoder, record: Record, joint: str) -> str:
    """Returns what comes before the last answer of a row, as it is asked."""
    if record.kind == "text":
        return ""
    turns = as_chat(record)
    answers = [index for index, turn in enumerate(turns) if turn.role == "assistant"]
    asked = turns[: answers[-1]] if answers and record.kind != "prompt" else turns
    options = replace(encoder.options, joint=joint)
    ids = prompt_ids(replace(encoder, options=options), asked, tools_of(record))
    return encoder.tokenizer.decode(ids)


def pieces_of(tokenizer: Tokenizer, row: EncodedRow, most: int) -> Iterator[Piece]:
    """Yields a row's first `most` tokens, which training keeps, as runs that are learned or not."""
    tokens = zip(row.ids[:most], row.learned[:most], strict=True)
    for learned, run in groupby(tokens, key=itemgetter(1)):
        yield Piece(tokenizer.decode([token for token, _ in run]), learned)


def count_tokens(lengths: Sequence[int], scale: float = 1) -> TokenCounts:
    """Returns percentiles (the nearest rank) and a histogram of at least one length.

    Args:
        scale: how many rows each of them stands for.
    """
    ordered = sorted(lengths)
    bins = Counter(max(_FIRST_BIN, 1 << (length - 1).bit_length()) for length in ordered)
    histogram = tuple(
        Bin(1 if most == _FIRST_BIN else most // 2 + 1, most, round(bins[most] * scale))
        for most in sorted(bins)
    )
    p50, p95 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95))
    return TokenCounts(round(sum(ordered) * scale), p50, p95, ordered[-1], histogram)
