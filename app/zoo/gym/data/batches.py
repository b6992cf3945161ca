"""From units of examples to padded batches. Legend: B rows, T positions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.gym.data.units import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.backends.base import Batch, SharedPrefix
    from zoo.gym.data.units import Example, Unit


def collate(units: "Sequence[Unit]", constants: Mapping[str, float] | None = None) -> "Batch":
    """Pads the rows of units on the right to the longest and returns them as one batch.

    The batch's `prefix` is what the rows of a unit have in common: usually its prompt.

    Raises:
        ValueError: some of the rows have extras that others lack.
    """
    import numpy as np

    from zoo.backends.base import Batch

    rows = rows_of(units)
    lengths_B = np.array([len(row.ids) for row in rows], dtype=np.int64)
    shape = (len(rows), int(lengths_B.max()))
    ids_BT, mask_BT = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for place, row in enumerate(rows):
        ids_BT[place, : len(row.ids)] = row.ids
        mask_BT[place, : len(row.ids)] = row.mask
    extras = _extras(rows, shape[1])
    prefix = _prefix(units)
    return Batch(ids_BT, lengths_B, mask_BT, extras, constants=dict(constants or {}), prefix=prefix)


def _prefix(units: "Sequence[Unit]") -> "SharedPrefix | None":
    """Returns the tokens that the rows of each unit begin with; None without any."""
    import numpy as np

    from zoo.backends.base import SharedPrefix

    lengths_R = np.array([unit.shared_tokens for unit in units], dtype=np.int64)
    if not lengths_R.any():
        return None
    prompt_B = np.repeat(np.arange(len(units)), [len(unit.rows) for unit in units])
    return SharedPrefix(prompt_B, lengths_R)


def _extras(rows: "Sequence[Example]", width: int) -> "dict[str, NDArray[Any]]":
    """Joins the extras of rows: numbers to `[B]`, arrays padded with zeros to `[B, T]`."""
    import numpy as np

    names = rows[0].extras.keys()
    for row in rows:
        if row.extras.keys() != names:
            odd = min(row.extras.keys() ^ names)
            raise ValueError(f"extras: expected the same in every row, got {odd!r} in some only")

    def padded(array: "NDArray[Any]") -> "NDArray[Any]":
        return np.pad(array, (0, width - len(array))) if array.ndim else array

    return {
        name: np.stack([padded(np.asarray(row.extras[name])) for row in rows]) for name in names
    }


def micro_batches(
    units: "Sequence[Unit]",
    *,
    max_batch_tokens: int | None = None,
    max_units: int | None = None,
) -> "Iterator[list[Unit]]":
    """Groups units of similar length into batches, to minimise padding.

    Args:
        units: sorted by decreasing length; ties keep their order.
        max_batch_tokens: limit of rows times the longest row; a wider unit gets its own batch.
        max_units: maximum number of units.
    """
    batch: list[Unit] = []
    rows = longest = 0
    for unit in sorted(units, key=lambda unit: -unit.longest):
        width = (rows + len(unit.rows)) * max(longest, unit.longest)
        too_wide = batch and max_batch_tokens and width > max_batch_tokens
        if too_wide or (max_units and len(batch) == max_units):
            yield batch
            batch, rows, longest = [], 0, 0
        batch.append(unit)
        rows, longest = rows + len(unit.rows), max(longest, unit.longest)
    if batch:
        yield batch
