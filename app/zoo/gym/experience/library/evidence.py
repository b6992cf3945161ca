"""Checks the evidence of a library or a lesson: names with numbers or text, free of contradictions.

A signature says who vouches for evidence, not that it makes sense. A value that does not fit a name
which this version knows is refused; other names stay as they are.
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


def is_count(value: object) -> bool:
    """Returns whether a value is a whole number from 0 that is not too large."""
    return type(value) is int and 0 <= value < MOST_COUNT


def _is_plain(value: object) -> bool:
    return isinstance(value, bool) or is_figure(value) or is_line(value)


_FIGURES = ("effect", "low", "high", "base", "learned", "probe_without", "probe_with", "gain")
_COUNTS = ("tokens", "unscored_base", "unscored_learned")
_POSITIVE = ("keys", "least_keys", "tasks", "top_k")
_TEXTS = ("model", "by", "round", "labels")
_VALUES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(_FIGURES, (is_figure, f"a number up to {MOST_FIGURE:g} in size")),
    **dict.fromkeys(_COUNTS, (is_count, "a whole number from 0")),
    **dict.fromkeys(
        _POSITIVE, (lambda value: is_count(value) and value != 0, "a whole number from 1")
    ),
    **dict.fromkeys(_TEXTS, (is_line, "text on one line")),
    "verdict": (("proven", "unproven").__contains__, "proven or unproven"),
}


def checked_evidence(value: object) -> dict[str, object]:
    """Returns evidence as it was read, if it can be true.

    Raises:
        InputError: it is no mapping of names to finite numbers and text, a name has a value of
            another kind, an effect is outside its interval, or a proof shows no gain.
    """
    if not isinstance(value, dict):
        raise InputError(
            "evidence: expected names with values, got something else", code="experience.evidence"
        )
    evidence = cast("dict[str, object]", value)
    if len(evidence) > MOST_NAMES:
        raise InputError(
            f"evidence: expected at most {MOST_NAMES} names, got {len(evidence)}",
            code="experience.evidence",
        )
    for name, figure in evidence.items():
        if not is_line(name):
            raise InputError(
                "evidence: expected names on one line, got another one", code="experience.evidence"
            )
        is_valid, expected = _VALUES.get(str(name), (_is_plain, "a number or text on one line"))
        if not is_valid(figure):
            raise InputError(
                f"evidence.{name}: expected {expected}, got {figure!r:.60}",
                code="experience.evidence",
            )
    ordered = [evidence[name] for name in ("low", "effect", "high") if name in evidence]
    figures = cast("list[float]", ordered)
    if figures != sorted(figures):
        raise InputError(
            f"evidence: expected low <= effect <= high, got {figures}", code="experience.evidence"
        )
    if evidence.get("verdict") == "proven":
        proof = proof_of(evidence)
        if proof is None or not proof[1] > 0:
            raise InputError(
                "evidence.verdict: expected an effect and its interval above 0 beside 'proven', "
                f"got {figures or 'none'}",
                code="experience.evidence",
            )
    return evidence


def proof_of(evidence: Mapping[str, object]) -> tuple[float, float, float] | None:
    """Returns effect, low and high of a proven gain; None without a proof."""
    figures = [evidence.get(name) for name in ("effect", "low", "high")]
    if evidence.get("verdict") != "proven" or not all(map(is_figure, figures)):
        return None
    effect, low, high = (float(cast("float", figure)) for figure in figures)
    return effect, low, high
