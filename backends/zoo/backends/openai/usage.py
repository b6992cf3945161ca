"""The tokens of a call, as a server counts them."""

from dataclasses import dataclass
from typing import cast

_MOST_TOKENS = 1 << 31


@dataclass(frozen=True)
class Usage:
    """What a server counted.

    Attributes:
        prompt_tokens: all tokens of the messages.
        cached_tokens: those of them that were in its cache.
        completion_tokens: the tokens of the answer, with its reasoning.
        cost_usd: what it says that the call cost; None if it does not say.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None = None


def usage_of(value: object) -> Usage | None:
    """Returns the counts of a server; None if they are missing or make no sense."""
    if not isinstance(value, dict):
        return None
    counts = cast("dict[str, object]", value)
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    details = counts.get("prompt_tokens_details")
    cached = counts.get("prompt_cache_hit_tokens")
    if cached is None and isinstance(details, dict):
        cached = cast("dict[str, object]", details).get("cached_tokens")
    cached = 0 if cached is None else cached
    known_counts = [count for count in (prompt, cached, completion) if type(count) is int]
    if (
        len(known_counts) < 3
        or not all(0 <= n < _MOST_TOKENS for n in known_counts)
        or known_counts[1] > known_counts[0]
    ):
        return None
    cost = counts.get("cost")
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6
    return Usage(
        known_counts[0],
        known_counts[1],
        known_counts[2],
        float(cast("float", cost)) if is_cost else None,
    )
