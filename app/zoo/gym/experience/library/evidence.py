"""What evidence of a library or a lesson may be: names with numbers or text that do not contradict.

A signature says whose evidence it is, not that it makes sense. What a name that this version knows
does not mean is refused; other names are kept as they are.
"""

from collections.abc import Callable, Mapping
from typing import cast

from zoo.gym.errors import InputError

MOST_FIGURE = 2e15
"""The largest size of a figure: rewards are at most 1e15 in size, so they differ by so much."""

MOST_NAMES = 32
MOST_COUNT = 1 << 31
_MOST_CHARACTERS = 1000


def is_figure(value: object) -> bool:
    """Returns whether a value is a number of a size that a difference of rewards can have."""
    return type(value) in (int, float) and abs(cast("float", value)) <= MOST_FIGURE


def is_line(value: object) -> bool:
    """Returns whether a value is text on one line, perhaps empty."""
    return (
        isinstance(value, str)
        and len(value) <= _MOST_CHARACTERS
        and (value.isprintable() or not value)
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST_COUNT


def _is_number(value: object) -> bool:
    return _is_count(value) and value != 0


def _is_verdict(value: object) -> bool:
    return value in ("proven", "unproven")


_COUNTS = ("tokens", "unscored_base", "unscored_learned")
_NUMBERS = ("keys", "least_keys", "tasks", "top_k")
_TEXTS = ("model", "by", "round", "labels")
_FIGURES = ("effect", "low", "high", "base", "learned", "probe_without", "probe_with", "gain")
_MEANT: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(_FIGURES, (is_figure, f"a number up to {MOST_FIGURE:g} in size")),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number from 0")),
    **dict.fromkeys(_NUMBERS, (_is_number, "a whole number from 1")),
    **dict.fromkeys(_TEXTS, (is_line, "text on one line")),
    "verdict": (_is_verdict, "proven or unproven"),
}


def checked_evidence(value: object) -> dict[str, object]:
    """Returns evidence as it was read, if it can be true.

    Raises:
        InputError: it is no mapping of names to finite numbers and text, what a name has is not
            what it means, an effect is outside its interval, or a proof shows no gain.
    """
    if not isinstance(value, dict):
        raise InputError("evidence: expected names with values, got something else")
    found = cast("dict[object, object]", value)
    if len(found) > MOST_NAMES:
        raise InputError(f"evidence: expected at most {MOST_NAMES} names, got {len(found)}")
    for name, one in found.items():
        if not is_line(name):
            raise InputError("evidence: expected names on one line, got another one")
        holds, meant = _MEANT.get(str(name), (_is_plain, "a number or text on one line"))
        if not holds(one):
            raise InputError(f"evidence.{name}: expected {meant}, got {one!r:.60}")
    known = cast("dict[str, object]", found)
    _refuse_contradiction(known)
    return known


def proof_of(evidence: Mapping[str, object]) -> tuple[float, float, float] | None:
    """Returns effect, low and high of what is proven; None without a proof."""
    figures = [evidence.get(name) for name in ("effect", "low", "high")]
    if evidence.get("verdict") != "proven" or not all(map(is_figure, figures)):
        return None
    effect, low, high = (float(cast("float", one)) for one in figures)
    return effect, low, high


def _is_plain(value: object) -> bool:
    return isinstance(value, bool) or is_figure(value) or is_line(value)


def _refuse_contradiction(evidence: Mapping[str, object]) -> None:
    ordered = [evidence[name] for name in ("low", "effect", "high") if name in evidence]
    figures = cast("list[float]", ordered)
    if figures != sorted(figures):
        raise InputError(f"evidence: expected low <= effect <= high, got {figures}")
    if evidence.get("verdict") == "proven":
        proof = proof_of(evidence)
        if proof is None or not proof[1] > 0:
            raise InputError(
                "evidence.verdict: expected an effect and its interval above 0 beside 'proven', "
                f"got {figures or 'none'}"
            )
