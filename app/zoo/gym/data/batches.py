"""From examples to padded batches. Legend: B rows, T positions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.base import Batch
    from zoo.gym.data.encode import Example


def collate(rows: "Sequence[Example]", constants: Mapping[str, float] | None = None) -> "Batch":
    """Pads rows on the right to the longest and returns them as one batch."""
    import numpy as np

    from zoo.backends.base import Batch

    lengths_B = np.array([len(row.ids) for row in rows], dtype=np.int64)
    shape = (len(rows), int(lengths_B.max()))
    ids_BT, mask_BT = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for place, row in enumerate(rows):
        ids_BT[place, : len(row.ids)] = row.ids
        mask_BT[place, : len(row.ids)] = row.mask
    return Batch(ids_BT, lengths_B, mask_BT, constants=dict(constants or {}))


def micro_batches(
    rows: "Sequence[Example]",
    *,
    max_batch_tokens: int | None = None,
    max_rows: int | None = None,
) -> "Iterator[list[Example]]":
    """Groups rows of similar length into batches, to minimise padding.

    Args:
        rows: sorted by decreasing length; ties keep their order.
        max_batch_tokens: limit of rows times the longest row; a longer row gets its own batch.
        max_rows: maximum number of rows.
    """
    batch: list[Example] = []
    for row in sorted(rows, key=lambda row: -len(row.ids)):
        too_wide = batch and max_batch_tokens and _width(batch, row) > max_batch_tokens
        if too_wide or (max_rows and len(batch) == max_rows):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _width(batch: "Sequence[Example]", row: "Example") -> int:
    return (len(batch) + 1) * max(len(batch[0].ids), len(row.ids))
