"""Handles the other keys of a row: each takes effect, is refused or is reported."""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import cast

from zoo.gym.data.reading.turns.chat import (
    CONTENT_KEYS,
    MEDIA_KEYS,
    REASONING_KEYS,
    ROLE_KEYS,
    ROLES,
)
from zoo.gym.data.reading.turns.flags import FLAG_KEYS, LOSS, WEIGHT_KEYS, learned_by_flags
from zoo.gym.data.reading.turns.tools import CALL_KEYS, RESULT_KEYS
from zoo.gym.data.reading.turns.values import shown, type_name
from zoo.gym.data.records import Message
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

Fields = dict[str, object]

SYSTEM_KEYS = ("system", "system_prompt")
"""Keys of a system prompt outside the turns."""

FORGET = "forget"
"""A row's key for whether its answer is to be forgotten: such an answer is a bad one."""

CLASS = "label"
"""A row's key for whether its answer is a good one, as in TRL, or for the class of a text."""

LABELS = (CLASS, "kto_tag", FORGET)
"""A row's keys for whether its answer is a good one."""

MARGIN = "margin"
"""The key of the margin of a pair, which only some methods read."""

NEEDS_PREFERENCE = (
    "expected one answer to learn; chosen and rejected ones need a preference method, as stage=dpo"
)
"""Why supervised training refuses preference data."""

ROW_WEIGHTS = (*WEIGHT_KEYS, "sample_weight")
"""A row's keys for what its loss is multiplied by."""

ROW_FLAGS = (*ROW_WEIGHTS, *FLAG_KEYS)
"""A row's keys for whether it is learned, and how much."""

MOST_WEIGHT = 1e6
"""The largest weight of a row."""

_PREFERENCE_KEYS = ("chosen", "rejected", "chosen_messages", "rejected_messages")
_TURN_KEYS = frozenset(
    (*ROLE_KEYS, *CONTENT_KEYS, *REASONING_KEYS, *CALL_KEYS, *MEDIA_KEYS, *WEIGHT_KEYS, *FLAG_KEYS)
)
_PART_KEYS = {
    "messages": _TURN_KEYS,
    "conversations": _TURN_KEYS,
    "prompt": _TURN_KEYS,
    "completion": _TURN_KEYS,
    "instances": frozenset(("input", "output")),
}
_METADATA = frozenset(
    [
        "id",
        "idx",
        "index",
        "uuid",
        "source",
        "dataset",
        "url",
        "license",
        "date",
        "created",
        "created_at",
        "timestamp",
    ]
)
"""Metadata of rows; nobody expects a model to learn it."""

BESIDE = "beside the prompt: "
"""What begins an unread key of a prompt, which only a reward can read."""

_MOST_NAMED = 8


def preference_keys(row: Fields) -> str:
    """Returns the keys that make a row preference data, in words; empty if there are none."""
    found = [key for key in _PREFERENCE_KEYS if isinstance(row.get(key), str | list | dict)]
    return " and ".join(f"{key!r}" for key in found if row[key])


def ratings_of(row: Fields) -> dict[str, bool]:
    """Returns whether the answer of a row is a good one, by each key that rates it.

    1 and 0 rate too, but not under `label`, which is also the class of a text.
    """
    given = {key: row[key] for key in LABELS if is_rating(key, row.get(key))}
    return {key: bool(value) is (key != FORGET) for key, value in given.items()}


def is_rating(key: str, value: object) -> bool:
    """Returns whether the value of a key of `LABELS` rates an answer in any method."""
    is_number = isinstance(value, int | float) and value in (0, 1)
    return isinstance(value, bool) or (key != CLASS and is_number)


def refuse_unlearnable(row: Fields, *, is_text: bool) -> None:
    """Refuses a row whose keys say that it is not to be learned, or only in part.

    Args:
        row: the decoded row.
        is_text: the row has no answer that a label could refer to.

    Raises:
        InputError: it contains chosen and rejected answers, is labelled as a bad answer or with
            what is no rating, or has a weight other than 1.
    """
    if keys := preference_keys(row):
        raise InputError(f"preference data, with {keys}: {NEEDS_PREFERENCE}")
    for key in LABELS:
        value = row.get(key)
        if key != CLASS and value is not None and not is_rating(key, value):
            raise InputError(f"{key!r}: expected true or false, or 1 or 0, got {_given(value)}")
    ratings = ratings_of(row).items()
    bad = [key for key, good in ratings if not good and not (is_text and key == CLASS)]
    if bad:
        value = str(row[bad[0]]).lower()
        raise InputError(f"{bad[0]!r} is {value}: {NEEDS_PREFERENCE}")
    refuse_weighted(row)


def refuse_weighted(row: Fields) -> None:
    """Refuses a row that is excluded from training, or whose weight is neither 0 nor 1.

    Raises:
        InputError: it is.
    """
    if (weight := row_weight(row)) != 1:
        key = next(key for key in ROW_WEIGHTS if row.get(key) is not None)
        raise InputError(f"{key!r}: expected 0 or 1, got {weight:g}")


def row_weight(row: Fields) -> float:
    """Returns what the loss of a row is multiplied by: above 0, 1 if the row does not say.

    Raises:
        InputError: the row is excluded (its weight is 0 or it is marked as not to be trained on), a
            weight is no number from 0 to `MOST_WEIGHT`, two differ, or a mark is not true or false.
    """
    given = {key: row[key] for key in ROW_WEIGHTS if row.get(key) is not None}
    weights = {key: _weight(key, value) for key, value in given.items()}
    if len(set(weights.values())) > 1:
        raise InputError(f"{' and '.join(map(repr, weights))}: expected one weight, got two")
    for key, weight in weights.items():
        if weight == 0:
            raise InputError(f"{key!r} is 0: the row is excluded")
    flags = {key: _flag(key, row[key]) for key in FLAG_KEYS if _is_flag(key, row.get(key))}
    if not learned_by_flags(flags, "row"):
        raise InputError("the row is excluded: it is marked as not to be trained on")
    return next(iter(weights.values()), 1.0)


def _weight(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{key!r}: expected a number, got {type_name(value)}")
    if not 0 <= value <= MOST_WEIGHT:
        raise InputError(f"{key!r}: expected 0 to {MOST_WEIGHT:,.0f}, got {value:g}")
    return float(value)


def _is_flag(key: str, value: object) -> bool:
    """Returns whether a row's key says whether it is learned; a loss may be a measured number."""
    return isinstance(value, bool) or (key != LOSS and value is not None)


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, int | float) or value not in (0, 1):
        raise InputError(f"{key!r}: expected true or false, or 1 or 0, got {_given(value)}")
    return bool(value)


def with_system(row: Fields, turns: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the turns, preceded by the system prompt that the row has under a separate key.

    Raises:
        InputError: the row has two system prompts, or one that is not text.
    """
    given: dict[str, str] = {}
    for key in SYSTEM_KEYS:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{key!r}: expected text, got {type_name(value)}")
        if value and value.strip():
            given[value] = key
    if turns and turns[0].role == "system":
        if any(text != turns[0].content for text in given):
            key = next(iter(given.values()))
            raise InputError(f"two system prompts: expected {key!r} or a system turn, got both")
        return turns
    if len(given) > 1:
        raise InputError("two system prompts: expected 'system' or 'system_prompt', got both")
    return (*(Message("system", text) for text in given), *turns)


def _given(value: object) -> str:
    if isinstance(value, str):
        return shown(value)
    return str(value) if isinstance(value, int | float) else type_name(value)


def unread_keys(value: object, reads: frozenset[str], *, is_rated: bool = False) -> frozenset[str]:
    """Returns the keys of a row that are set but not read, except metadata.

    Args:
        value: the decoded row.
        reads: the keys that its format reads.
        is_rated: the row is a rated answer, so that 0 and 1 under `label` are read.
    """
    if not isinstance(value, dict):
        return frozenset()
    row = cast("Fields", value)
    known = {*reads, *ROW_WEIGHTS, *(key for key in FLAG_KEYS if _is_flag(key, row.get(key)))}
    # without true or false a label is the class of a text, not a rating of an answer
    known = {key for key in known if is_rated or key not in LABELS or is_rating(key, row.get(key))}
    return frozenset((*_unread(row, known), *_unread_parts(row, reads)))


def unlisted_keys(fields: Fields) -> frozenset[str]:
    """Returns the keys that are set, of columns that are not among those to read; no metadata."""
    return frozenset(_unread(fields, frozenset()))


def _unread(fields: Fields, known: Set[str]) -> Iterator[str]:
    for key, value in fields.items():
        empty = value is None or value in ("", [], {})
        if not (empty or key in known or key.lower() in _METADATA or key.endswith("_id")):
            yield key


def _unread_parts(row: Fields, reads: frozenset[str]) -> Iterator[str]:
    for key, known in _PART_KEYS.items():
        parts = row.get(key) if key in reads else None
        for part in cast("list[object]", parts) if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            fields = cast("Fields", part)
            role = fields.get("role", fields.get("from"))
            is_tool = isinstance(role, str) and ROLES.get(role) == "tool"
            of_turn = known | frozenset(RESULT_KEYS if is_tool else ())
            yield from (f"{key}[].{name}" for name in _unread(fields, of_turn))
            if isinstance(role, str) and ROLES.get(role, "assistant") != "assistant":
                marks = (name for name in (*WEIGHT_KEYS, *FLAG_KEYS) if fields.get(name))
                yield from (f"{key}[].{name} of a {ROLES[role]} turn" for name in marks)


def unread_note(path: str, counts: Mapping[str, int]) -> str:
    """Returns the message about the keys of a file that are not read."""
    plain = {key: count for key, count in counts.items() if not key.startswith(BESIDE)}
    beside = {key.removeprefix(BESIDE): n for key, n in counts.items() if key not in plain}
    parts = [f"keys that are not read: {_most(plain)}"] if plain else []
    if beside:
        parts.append(
            f"keys that are not part of the prompt and only rewards can read: {_most(beside)}"
        )
    return f"{path}: {'; '.join(parts)}"


def _most(counts: Mapping[str, int]) -> str:
    most = Counter(counts).most_common(_MOST_NAMED)
    named = ", ".join(f"{shown(key)} ({counted(count, 'row')})" for key, count in most)
    return named + (f" and {len(counts) - len(most)} more" if len(counts) > len(most) else "")
