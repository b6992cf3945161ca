"""Handles the other keys of a row: each takes effect, is refused or is reported."""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import cast

from zoo.gym.data.reading.turns.chat import (
    CONTENT_KEYS,
    FLAG_KEYS,
    MEDIA_KEYS,
    REASONING_KEYS,
    ROLE_KEYS,
    ROLES,
    WEIGHT_KEYS,
    flags_of,
)
from zoo.gym.data.reading.turns.tools import CALL_KEYS, RESULT_KEYS
from zoo.gym.data.reading.turns.values import described, shown, wrong_type
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

_TURN_KEYS = frozenset(
    (*ROLE_KEYS, *CONTENT_KEYS, *REASONING_KEYS, *CALL_KEYS, *MEDIA_KEYS, *WEIGHT_KEYS, *FLAG_KEYS)
)
_PART_KEYS = {
    **dict.fromkeys(("messages", "conversations", "prompt", "completion"), _TURN_KEYS),
    "instances": frozenset(("input", "output")),
}
_METADATA = frozenset(
    {"id", "idx", "index", "uuid", "source", "dataset", "url", "license", "date", "created"}
    | {"created_at", "timestamp"}
)
"""Metadata of rows; nobody expects a model to learn it."""

BESIDE = "beside the prompt: "
"""What begins an unread key of a prompt, which only a reward can read."""

_MOST_NAMED = 8


def preference_keys(row: Fields) -> str:
    """Returns the keys that make a row preference data, in words; empty if there are none."""
    keys = ("chosen", "rejected", "chosen_messages", "rejected_messages")
    present = (key for key in keys if isinstance(row.get(key), str | list | dict) and row[key])
    return " and ".join(map(repr, present))


def ratings_of(row: Fields) -> dict[str, bool]:
    """Returns whether the answer of a row is a good one, by each key that rates it.

    1 and 0 rate too, but not under `label`, which is also the class of a text.
    """
    return {
        key: bool(row[key]) is (key != FORGET) for key in LABELS if is_rating(key, row.get(key))
    }


def is_rating(key: str, value: object) -> bool:
    """Returns whether the value of a key of `LABELS` rates an answer in any method."""
    is_number = isinstance(value, int | float) and value in (0, 1)
    return isinstance(value, bool) or (key != CLASS and is_number)


def refuse_unlearnable(row: Fields, *, is_text: bool) -> None:
    """Refuses a row with keys that exclude it from learning, or a part of it.

    Args:
        is_text: the row has no answer that a label could refer to.

    Raises:
        InputError: it contains chosen and rejected answers, is labelled as a bad answer or with
            what is no rating, or has a weight other than 1.
    """
    if keys := preference_keys(row):
        raise InputError(
            f"preference data, with {keys}: {NEEDS_PREFERENCE}", code="data.preference_data"
        )
    for key in LABELS:
        if key != CLASS and row.get(key) is not None:
            require_flag(key, row[key])
    for key, good in ratings_of(row).items():
        if not good and not (is_text and key == CLASS):
            raise InputError(
                f"{key!r} is {str(row[key]).lower()}: {NEEDS_PREFERENCE}",
                code="data.preference_data",
            )
    if (weight := row_weight(row)) != 1:
        key = next(key for key in ROW_WEIGHTS if row.get(key) is not None)
        raise InputError(f"{key!r}: expected 0 or 1, got {weight:g}", code="data.bad_weight")


def require_flag(key: str, value: object) -> bool:
    """Returns the value of a key that must be true or false, or 1 or 0.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, int | float) or value not in (0, 1):
        got = str(value) if isinstance(value, int | float) else described(value)
        raise InputError(
            f"{key!r}: expected true or false, or 1 or 0, got {got}", code="data.bad_flag"
        )
    return bool(value)


def row_weight(row: Fields) -> float:
    """Returns what the loss of a row is multiplied by: above 0, 1 if the row does not say.

    Raises:
        InputError: the row is excluded (its weight is 0 or it is marked as not to be trained on), a
            weight is no number from 0 to `MOST_WEIGHT`, two differ, or a mark is not true or false.
    """
    weights = {key: _weight(key, row[key]) for key in ROW_WEIGHTS if row.get(key) is not None}
    if len(set(weights.values())) > 1:
        raise InputError(
            f"{' and '.join(map(repr, weights))}: expected one weight, got two",
            code="data.two_weights",
        )
    for key, weight in weights.items():
        if weight == 0:
            raise InputError(f"{key!r} is 0: the row is excluded", code="data.row_excluded")
    flags = {key: require_flag(key, row[key]) for key in FLAG_KEYS if _is_flag(key, row.get(key))}
    if flags_of(flags, "row") == {False}:
        raise InputError(
            "the row is excluded: it is marked as not to be trained on", code="data.row_excluded"
        )
    return next(iter(weights.values()), 1.0)


def _weight(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(repr(key), "a number", value)
    if not 0 <= value <= MOST_WEIGHT:
        raise InputError(
            f"{key!r}: expected 0 to {MOST_WEIGHT:,.0f}, got {value:g}", code="data.bad_weight"
        )
    return float(value)


def _is_flag(key: str, value: object) -> bool:
    """Returns whether a row's key says whether it is learned; a loss may be a measured number."""
    return isinstance(value, bool) or (key != "loss" and value is not None)


def with_system(row: Fields, turns: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the turns, preceded by the system prompt that the row has under a separate key.

    Raises:
        InputError: the row has two system prompts, or one that is not text.
    """
    prompts: dict[str, str] = {}
    for key in SYSTEM_KEYS:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            raise wrong_type(repr(key), "text", value)
        if value and value.strip():
            prompts[value] = key
    if turns and turns[0].role == "system":
        if any(text != turns[0].content for text in prompts):
            raise InputError(
                f"two system prompts: expected {next(iter(prompts.values()))!r} or a system turn, "
                "got both",
                code="data.two_systems",
            )
        return turns
    if len(prompts) > 1:
        raise InputError(
            "two system prompts: expected 'system' or 'system_prompt', got both",
            code="data.two_systems",
        )
    return (*(Message("system", text) for text in prompts), *turns)


def unread_keys(value: object, reads: frozenset[str], *, is_rated: bool = False) -> frozenset[str]:
    """Returns the keys of a row that are set but not read, except metadata.

    Args:
        is_rated: the row is a rated answer, so that 0 and 1 under `label` are read.
    """
    if not isinstance(value, dict):
        return frozenset()
    row = cast("Fields", value)
    keys = {*reads, *ROW_WEIGHTS, *(key for key in FLAG_KEYS if _is_flag(key, row.get(key)))}
    # without true or false a label is the class of a text, not a rating of an answer
    keys = {key for key in keys if is_rated or key not in LABELS or is_rating(key, row.get(key))}
    return frozenset((*other_keys(row, keys), *_unread_parts(row, reads)))


def other_keys(fields: Fields, reads: Set[str]) -> Iterator[str]:
    """Yields the keys that are set and not among those that are read, except metadata."""
    for key, value in fields.items():
        empty = value is None or value in ("", [], {})
        if not (empty or key in reads or key.lower() in _METADATA or key.endswith("_id")):
            yield key


def _unread_parts(row: Fields, reads: frozenset[str]) -> Iterator[str]:
    for key, turn_keys in _PART_KEYS.items():
        parts = row.get(key) if key in reads else None
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            word = part.get("role", part.get("from"))
            role = ROLES.get(word) if isinstance(word, str) else None
            keys = turn_keys | frozenset(RESULT_KEYS if role == "tool" else ())
            yield from (f"{key}[].{name}" for name in other_keys(part, keys))
            if role not in (None, "assistant"):
                marks = (name for name in (*WEIGHT_KEYS, *FLAG_KEYS) if part.get(name))
                yield from (f"{key}[].{name} of a {role} turn" for name in marks)


def unread_note(path: str, counts: Mapping[str, int]) -> str:
    """Returns the message about the keys of a file that are not read."""
    plain = {key: count for key, count in counts.items() if not key.startswith(BESIDE)}
    beside = {key.removeprefix(BESIDE): n for key, n in counts.items() if key not in plain}
    parts = [f"keys that are not read: {_most(plain)}"] if plain else []
    if beside:
        parts.append(
            f"keys that are not part of the prompt and that only rewards can read: {_most(beside)}"
        )
    return f"{path}: {'; '.join(parts)}"


def _most(counts: Mapping[str, int]) -> str:
    most = Counter(counts).most_common(_MOST_NAMED)
    named = ", ".join(f"{shown(key)} ({counted(count, 'row')})" for key, count in most)
    return named + (f" and {len(counts) - len(most)} more" if len(counts) > len(most) else "")
