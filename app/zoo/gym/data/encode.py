"""Turns rows into units of examples: token ids, and which of them are learned."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

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
from zoo.gym.data.units import (
    MARGIN,
    Example,
    Unit,
    alone,
    rated,
    rows_of,
    weighted,
    with_extra,
)
from zoo.gym.data.windows import windows
from zoo.gym.errors import InputError

MOST_STOPPED = 2
"""Rows that may exceed the limits of rendering before the data is refused."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The examples that a model can learn from.

    Attributes:
        units: one per row with learned tokens, in order: a pair has two examples; windows of text
            last. Those of many rows are encoded on access, see `zoo.gym.data.lazy`.
        problems: rows that the model's template refuses.
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

    Args:
        records: the rows.
        tokenizer: the model's tokenizer.
        options: length, reasoning and date.

    Raises:
        InputError: chat for a model without a chat template, or no row has a learned token
            within `cutoff_len`.
    """
    encoder = make_encoder(tokenizer, options)
    found = encode_all(encoder, records)
    if not found.units:
        raise _nothing_to_learn(options, found)
    require_words([row for row in found.examples if row.record is None], encoder)
    return found


def encode_all(encoder: Encoder, records: Sequence[Record]) -> Encoded:
    """Turns rows into examples as `encode_records` does; there may be none.

    Raises:
        InputError: chat for a model without a chat template.
    """
    options = encoder.options
    plain = [record for record in records if record.kind in ("chat", "completion")]
    rows, problems = encode_rows(encoder, plain)
    cut = [cut_row(row, record.source, options.cutoff_len) for record, row in rows]
    units = list(alone(example for example in cut if example is not None))
    pairs, refused = _encode_pairs(encoder, [r for r in records if r.kind == "pair"])
    cut_pairs = [_cut_pair(pair, record, options.cutoff_len) for record, pair in pairs]
    units += [unit for unit in cut_pairs if unit is not None]
    answers, bad = _encode_rated(encoder, [r for r in records if r.kind == "rated"])
    cut_rated = [_cut_rated(row, record, options.cutoff_len) for record, row in answers]
    units += alone(example for example in cut_rated if example is not None)
    dropped = len(cut) + len(cut_pairs) + len(cut_rated) - len(units)
    prompts, unread = _prompt_examples(encoder, [r for r in records if r.kind == "prompt"])
    units += alone(_text_examples(encoder, [r for r in records if r.kind == "text"]))
    lengths = [len(row.ids) for _, row in (*rows, *answers)]
    lengths += [max(len(side.ids) for side in pair) for _, pair in pairs]
    units += alone(prompts)
    problems += [*refused, *bad, *unread]
    truncated = sum(length > options.cutoff_len for length in lengths)
    longest = max(lengths, default=0)
    tokens = sum(unit.tokens for unit in units)
    first = [row for _, row in (*rows, *answers)] + [better for _, (better, _) in pairs]
    return Encoded(
        tuple(units),
        tuple(problems),
        truncated,
        dropped,
        longest,
        seen=units,
        tokens=tokens,
        lost=sum(lost_tokens(row, options.cutoff_len) for row in first),
    )


def _encode_pairs(
    encoder: Encoder, records: Sequence[Record]
) -> tuple[list[tuple[Record, tuple[EncodedRow, EncodedRow]]], list[Problem]]:
    """Returns each pair in tokens, better answer first; a pair with a bad side is left out."""
    pairs: list[tuple[Record, tuple[EncodedRow, EncodedRow]]] = []
    problems: list[Problem] = []
    for record in records:
        sides, wrong = encode_rows(encoder, record.sides)
        if wrong:
            problems.append(wrong[0])
        else:
            (_, better), (_, worse) = sides
            pairs.append((record, (better, worse)))
    return pairs, problems


def _cut_pair(pair: tuple[EncodedRow, EncodedRow], record: Record, cutoff_len: int) -> Unit | None:
    """Returns a pair as a unit, or None if truncation makes its sides equal."""
    import numpy as np

    better, worse = (cut_row(side, record.source, cutoff_len) for side in pair)
    if better is None or worse is None or np.array_equal(better.ids, worse.ids):
        return None
    if record.margin is not None:
        margin = np.array(record.margin, dtype=np.float32)
        better, worse = (with_extra(row, MARGIN, margin) for row in (better, worse))
    return Unit((weighted(better, record.weight), weighted(worse, record.weight)))


def _encode_rated(
    encoder: Encoder, records: Sequence[Record]
) -> tuple[list[tuple[Record, EncodedRow]], list[Problem]]:
    """Returns the answers in tokens, each with its rating."""
    found: list[tuple[Record, EncodedRow]] = []
    problems: list[Problem] = []
    for record in records:
        rows, wrong = encode_rows(encoder, record.sides)
        problems += wrong
        found += [(record, row) for _, row in rows]
    return found, problems


def _cut_rated(row: EncodedRow, record: Record, cutoff_len: int) -> Example | None:
    """Returns a rated answer with rating and weight, or None if no token of it is left."""
    example = cut_row(row, record.source, cutoff_len)
    return example and weighted(rated(example, good=bool(record.good)), record.weight)


def encode_rows(
    encoder: Encoder, records: Sequence[Record]
) -> tuple[list[tuple[Record, EncodedRow]], list[Problem]]:
    """Returns the tokenized rows, not truncated, and the rows that the template refuses.

    Raises:
        InputError: chat for a model without a chat template, or a template that exceeds its
            limits repeatedly.
        InterruptedRunError: a stop was requested; see `interruptible`.
    """
    rows: list[tuple[Record, EncodedRow]] = []
    problems: list[Problem] = []
    stopped = 0
    for record in records:
        check_leaving()
        require_template(encoder, record)
        try:
            rows.append((record, encode_row(encoder, record)))
        except RenderLimitError as error:
            stopped += 1
            if stopped == MOST_STOPPED:  # every further row would take just as long
                raise
            problems.append(Problem(record.source, error.message))
        except InputError as error:
            problems.append(Problem(record.source, error.message))
    return rows, problems


def _nothing_to_learn(options: EncodeOptions, found: Encoded) -> InputError:
    if not found.dropped_unlearned:
        return InputError(
            str(found.problems[0]) if found.problems else "no row has a token to learn"
        )
    return InputError(
        f"no row has a token to learn within cutoff_len {options.cutoff_len}: expected part of an "
        f"answer, got {found.dropped_unlearned} rows whose answers start later",
        hint=f"raise cutoff_len: the longest row has {found.longest} tokens",
    )


def lost_tokens(row: EncodedRow, cutoff_len: int) -> int:
    """Returns how many learned tokens the cut loses; 0 of a row of which it leaves none."""
    return sum(row.learned[cutoff_len:]) if any(row.learned[1:cutoff_len]) else 0


def cut_row(row: EncodedRow, source: str, cutoff_len: int) -> Example | None:
    """Returns the start of a row as an example, or None if no token in it is learned."""
    import numpy as np

    learned = [False, *row.learned[1:cutoff_len]]
    if not any(learned):
        return None
    ids = np.array(row.ids[:cutoff_len], dtype=np.int64)
    return Example(ids, np.array(learned, dtype=np.bool_), source, len(row.ids) > cutoff_len)


def _prompt_examples(
    encoder: Encoder, records: Sequence[Record]
) -> tuple[list[Example], list[Problem]]:
    """Returns prompts in tokens, none of them learned, with the weights of their answers.

    One is left out if it has no room for an answer, or if its other fields exclude the row.
    Without a chat template, the turns are joined by blank lines.
    """
    import numpy as np

    examples: list[Example] = []
    problems: list[Problem] = []
    most = encoder.options.cutoff_len - encoder.options.answer_tokens
    for record in records:
        check_leaving()
        require_template(encoder, record)
        try:
            weight = row_weight(dict(record.metadata))
            ids = prompt_ids(encoder, as_chat(record), record.tools)
            if len(ids) > most:
                raise InputError(
                    f"expected a prompt of at most {most} tokens, because an answer may take "
                    f"{encoder.options.answer_tokens} of {encoder.options.cutoff_len}, "
                    f"got {len(ids)}"
                )
        except InputError as error:
            problems.append(Problem(record.source, error.message))
            continue
        row = np.array(ids, dtype=np.int64)
        mask = np.zeros(len(ids), dtype=np.bool_)
        prompt = Example(row, mask, record.source, truncated=False, record=record)
        examples.append(weighted(prompt, weight))
    return examples, problems


def _text_examples(encoder: Encoder, records: Sequence[Record]) -> list[Example]:
    """Returns windows over the stream of all documents; each is named by the text it starts in."""
    import numpy as np

    ids: list[int] = []
    learned: list[bool] = []
    starts: list[int] = []  # in `ids`, of each text
    for document in _documents(encoder, records):
        tokens = tokenise_text(encoder, BLANK_LINE.join(text.text for text in document))
        row = [*tokens.ids, *end_of(encoder, document[-1])]
        whole = with_bos(encoder.tokenizer, row)
        in_front = len(whole) - len(row)
        characters = accumulate((len(text.text) + len(BLANK_LINE) for text in document), initial=0)
        begins = [in_front + tokens.first_from(start) for start in [*characters][1:-1]]
        starts += [len(ids) + begin for begin in [0, *begins]]
        ids += whole
        learned += [False] * in_front + [True] * len(row)
    require_embeddings(encoder, ids)
    examples: list[Example] = []
    for start, stop in windows(len(ids), encoder.options.cutoff_len):
        mask = np.array([False, *learned[start + 1 : stop]], dtype=np.bool_)
        source = records[bisect_right(starts, start) - 1].source
        row_ids = np.array(ids[start:stop], dtype=np.int64)
        if mask.any():
            examples.append(Example(row_ids, mask, source, truncated=False))
    return examples


def _file(record: Record) -> str:
    return record.source.rpartition(":")[0]


def _documents(encoder: Encoder, records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yields the texts of each document; without `append_eos`, all are one."""
    document: list[Record] = []
    for record in records:
        if document and encoder.options.append_eos and _file(document[-1]) != _file(record):
            yield document  # its end was left out
            document = []
        document.append(record)
        if end_of(encoder, record):
            yield document
            document = []
    if document:
        yield document
