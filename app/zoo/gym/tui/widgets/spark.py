"""A curve in one line of text, for lists and panels."""

from collections.abc import Sequence
from itertools import pairwise

_LEVELS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float], width: int) -> str:
    """Returns a curve of at most `width` characters; each is the mean of its part of the values."""
    parts = min(width, len(values))
    if parts <= 0:
        return ""
    edges = [i * len(values) // parts for i in range(parts + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    least, room = min(means), (max(means) - min(means)) or 1.0
    return "".join(_LEVELS[round((mean - least) / room * (len(_LEVELS) - 1))] for mean in means)
