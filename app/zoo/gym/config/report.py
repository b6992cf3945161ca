"""Turns pydantic's errors into our messages, the same for the command line and the app.

A message has the form `expected a whole number, got "many"`. The caller, who knows file and line,
prepends the origin.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from zoo.gym.config.foreign import ALIASES
from zoo.gym.config.stages import METHODS

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

COMMON_NAMES = {
    "batch_size": "per_device_train_batch_size",
    "grad_accum": "gradient_accumulation_steps",
    "lr": "learning_rate",
    "max_length": "cutoff_len",
    "max_seq_length": "cutoff_len",
    "num_epochs": "num_train_epochs",
    "r": "lora_rank",
    "rank": "lora_rank",
    "steps": "max_steps",
}
"""Names of our keys in other programs; only used in suggestions, never accepted."""

ALSO = {"finetuning_type": " (qlora is 'lora' with quantization_bit 4)"}
"""What is said of a setting's values besides their list."""

NOT_GIVEN = "not given"
"""The message for a required setting that is missing."""

_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LENGTHS = {
    "string_too_short": ("characters, at least", "min_length"),
    "string_too_long": ("characters, at most", "max_length"),
    "too_short": ("items, at least", "min_length"),
    "too_long": ("items, at most", "max_length"),
}

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "not_a_number": "a number",
    "bool": "true or false",
    "string": "text",
    "model_type": "names with values",
    "list": "a list",
    "dict": "names with values",
    "tuple": "a file or a list of files",
    "finite_number": "a finite number",
    "not_a_date": "a date as YYYY-MM-DD",
}
_NESTED = _EXPECTED | {
    "finite": "a finite number",
    "tuple": "a list",
    "model": "an object",
    "dict": "an object",
    "none": "null",
}

_PATTERNS = {
    r"^[0-9a-f]{64}$": "64 hexadecimal digits",
    r"^[A-Za-z0-9_-]{1,64}$": "1 to 64 of A-Z, a-z, 0-9, '_', '-'",
    r"^[a-z][a-z0-9._-]{0,63}$": "1 to 64 of a-z, 0-9, '.', '_', '-', the first of them a letter",
    r"^[^\x00-\x1f\x7f]+$": "text without control characters",
    r"^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ$": "a time as 2026-12-31T23:59:59Z",
}


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Returns the known name that was probably meant, or None."""
    names = list(candidates)
    if (common := COMMON_NAMES.get(name, ALIASES.get(name))) in names:
        return common
    close = difflib.get_close_matches(name.lower().replace("-", "_"), names, n=1, cutoff=0.6)
    return close[0] if close else None


def unknown(noun: str, name: str, candidates: Iterable[str]) -> str:
    """Returns `no such {noun}`, with the nearest known name if there is one."""
    close = nearest(name, candidates)
    return f"no such {noun}" + (f". Did you mean '{close}'?" if close else "")


def shown(value: object) -> str:
    """Returns a value for an error message: text in double quotes, long values by their type."""
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 60 else value[:57] + "...", ensure_ascii=False)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    words: dict[object, str] = {None: "nothing", True: "true", False: "false"}
    plain = value is None or isinstance(value, bool)
    return words[value] if plain else str(value)[:60]


def sentences(error: "ValidationError", model: "type[BaseModel]") -> Iterator[tuple[str, str]]:
    """Yields (key, message) for each error of pydantic, once per key."""
    seen: set[str] = set()
    for details in error.errors(include_url=False):
        if details["type"] == "disagree":
            yield from details.get("ctx", {})["faults"].items()
            continue
        key = str(details["loc"][0]) if details["loc"] else "settings"
        if key not in seen:
            seen.add(key)
            yield key, _sentence(details, key, model)


def first_fault(error: "ValidationError") -> tuple[str, str]:
    """Returns where a nested model is wrong first, as `caps.rank`, and what it expected there.

    What somebody else sent is quoted as Python has it.
    """
    first = error.errors(include_url=False)[0]
    return ".".join(str(part) for part in first["loc"]), _fault(first)


def _fault(details: "ErrorDetails") -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "value_error":  # of a validator, which has its own words
        return str(context["error"])
    if kind == "missing":
        return "expected a value, got nothing"
    if kind == "extra_forbidden":
        return "expected no field of this name, got one"
    return f"expected {wanted(details)}, got {details['input']!r:.60}"


def wanted(details: "ErrorDetails") -> str:
    """Returns in words what a nested model expected of a value: `at least 1`, `a list`."""
    kind, context = details["type"], details.get("ctx", {})
    if kind in _BOUNDS or kind in _LENGTHS:
        words, name = (_BOUNDS | _LENGTHS)[kind]
        return f"{words} {_bound(context[name])}"
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        return _PATTERNS.get(pattern, f"text of the form {pattern}")
    return _NESTED.get(kind.partition("_")[0], "another value")


def hint_of(error: "ValidationError") -> str | None:
    """Returns the hint of the first error that has one, or None."""
    hints = (details.get("ctx", {}).get("hint") for details in error.errors(include_url=False))
    return next((hint for hint in hints if isinstance(hint, str)), None)


def _sentence(details: "ErrorDetails", key: str, model: "type[BaseModel]") -> str:
    kind = details["type"]
    if kind == "extra_forbidden":
        return _elsewhere(key, model) or unknown("setting", key, model.model_fields)
    if kind == "missing":
        return NOT_GIVEN
    context = details.get("ctx", {})
    if kind == "sentence":
        return str(context["text"])
    if kind in ("value_error", "assertion_error"):  # from a validator of the model itself
        return str(context["error"])
    if kind == "enum":
        return _not_listed(str(context["expected"]), details["input"])
    expected = _expected(kind, context, key, model)
    if kind == "list_type" and isinstance(details["input"], str):
        expected += f", as [{details['input']:.60}]"
    return f"expected {expected}, got {shown(details['input'])}"


def _not_listed(expected: str, value: object) -> str:
    """Returns what a setting with a list of values expects; pydantic has them in quotes."""
    names = re.findall("'([^']*)'", expected)
    close = nearest(value, names) if isinstance(value, str) else None
    suggestion = f". Did you mean '{close}'?" if close else ""
    return f"expected one of {', '.join(names)}, got {shown(value)}{suggestion}"


def _elsewhere(key: str, model: "type[BaseModel]") -> str | None:
    """Returns that a setting is one of other methods, or None."""
    from zoo.gym.config.stages import stages_with

    stage_field = model.model_fields.get("stage")
    stages = stages_with(key) if stage_field is not None else []
    if stage_field is None or not stages:
        return None
    return f"has no effect with stage {stage_field.default}: expected stage {' or '.join(stages)}"


def _bound(value: object) -> str:
    """Formats a number: `1,048,576`, `0.5`."""
    if isinstance(value, int | float) and value == int(value):
        return f"{int(value):,}"
    return str(value)


def _expected(kind: str, context: Mapping[str, object], key: str, model: "type[BaseModel]") -> str:
    """Returns what was expected: a bound, or a type in words."""
    if kind in _BOUNDS:
        limits = {type(limit).__name__: limit for limit in model.model_fields[key].metadata}
        if limits.keys() >= {"Ge", "Le"}:
            return f"{_bound(limits['Ge'].ge)} to {_bound(limits['Le'].le)}"
        words, name = _BOUNDS[kind]
        return f"{words} {_bound(context[name])}"
    if kind in ("too_short", "string_too_short"):
        return "at least one file" if kind == "too_short" else "text"
    if kind == "not_a_number" and "int" in str(model.model_fields[key].annotation):
        return "a whole number"
    if kind == "literal_error":
        more = ALSO.get(key, "")
        return ", ".join(METHODS) if key == "stage" else f"{context['expected']}{more}"
    stem = kind if kind in _EXPECTED else kind.partition("_")[0]
    return _EXPECTED.get(stem, "another value")
