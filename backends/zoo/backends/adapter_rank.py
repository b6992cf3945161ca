"""Warns of a rank that an adapter's product cannot have."""

import warnings
from collections.abc import Mapping

from zoo.core.errors import GymWarning

GATE = 16
"""Layers with fewer outputs are gates and routers, which are narrow in every model."""


def warn_of_rank(rank: int, sides: Mapping[str, tuple[int, int]]) -> None:
    """Warns if a rank is above the smaller side of a layer.

    The factors train all the same, but their product has no more directions than that side: the
    rest takes memory and time, and makes the scale alpha / rank smaller. A wide model may have some
    narrow layers, so that such a rank is not refused; nothing is said of gates and routers.

    Args:
        rank: that of the adapter.
        sides: the outputs and inputs of each adapted layer by name.

    Warns:
        GymWarning: names the first such layer and counts the others.
    """
    narrow = [name for name, shape in sides.items() if rank > min(shape) >= GATE]
    if not narrow:
        return
    first, rest = min(narrow, key=lambda name: (min(sides[name]), name)), len(narrow) - 1
    more = f" and {rest} other{'s' * (rest > 1)} less than it" if rest else ""
    warnings.warn(
        f"lora_rank: expected at most the smaller side of a layer, got {rank}: {first!r} has "
        f"{min(sides[first])}{more}; more factors take memory and add nothing to what it can learn",
        GymWarning,
        stacklevel=3,
    )
