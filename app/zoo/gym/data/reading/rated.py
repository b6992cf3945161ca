"""Parses rated answers: one answer to one prompt, and whether it is a good one.

The rating is under `label` (as in TRL) or `kto_tag` (as in LLaMA-Factory), true or false; prompt
and answer are in any format of one answer. A pair is two rated answers.
"""

from collections.abc import Mapping
from dataclasses import replace

from zoo.gym.data.reading.chat import type_name
from zoo.gym.data.reading.formats import parse_row
from zoo.gym.data.reading.keys import LABELS
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

EXPECTED = "expected 'label' true or false, or 'chosen' and 'rejected'"
"""What a method that learns from rated answers reads."""


def parse_rated(row: Mapping[str, object], source: str) -> tuple[str, Record]:
    """Returns the name of a row's format, and the rated answer.

    Only the last turn of a chat is rated; earlier ones are read.

    Args:
        row: a decoded row.
        source: `file:line`.

    Raises:
        InputError: there is no rating, ratings differ, or there is no answer to rate.
    """
    ratings = {key: row[key] for key in LABELS if row.get(key) is not None}
    for key, value in ratings.items():
        if not isinstance(value, bool):
            raise InputError(f"{key!r}: expected true or false, got {type_name(value)}")
    if not ratings:
        raise InputError(f"{EXPECTED}, got an answer without a rating")
    if len(set(ratings.values())) > 1:
        raise InputError(f"{' and '.join(map(repr, ratings))}: expected one rating, got both")
    name, records = parse_row({key: row[key] for key in row if key not in LABELS}, source)
    if len(records) != 1 or records[0].kind == "text":
        raise InputError(f"expected an answer to a prompt, got a row of {name}")
    answer = replace(records[0], messages=_last_learned(records[0].messages))
    return name, Record(source, "rated", sides=(answer,), good=all(ratings.values()))


def rated_of(pair: Record) -> tuple[Record, Record]:
    """Returns the better answer of a pair, rated good, and the worse one, rated bad."""
    better, worse = pair.sides
    return (
        Record(pair.source, "rated", sides=(better,), good=True),
        Record(pair.source, "rated", sides=(worse,), good=False),
    )


def _last_learned(turns: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns turns of which only the last is learned."""
    return (*(replace(turn, learned=False) for turn in turns[:-1]), *turns[-1:])
