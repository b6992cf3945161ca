"""What form signs keeps of an adapter: one bit a value and one scale a tensor are little for it."""

from pathlib import Path

from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.tuned.opened import open_tuned


def kept_of_adapter(source: Path, base: Path, coding: Coding) -> float | None:
    """Returns the share of an adapter's squared norm that form signs keeps, 0 to 1.

    The scale of a tensor is the mean of its absolute values, so that the share is also the square
    of the cosine between the change and what is coded. None in other forms and of other sources.

    Args:
        source: a fine-tune that the round takes, see `open_tuned`.
        base: the folder of the base.
        coding: tensors and form of the round.
    """
    import numpy as np

    if coding.form != "signs" or not is_adapter(source):
        return None
    changes = open_tuned(source, base).changes
    kept = whole = 0.0
    for name in changes.names:
        change = changes.change(name)
        scale = float(np.abs(change).mean(dtype=np.float64))
        kept += change.size * scale * scale
        whole += float(np.square(change, dtype=np.float64).sum())
    return kept / whole if whole > 0 else None
