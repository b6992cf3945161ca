"""From units of examples to padded batches. Legend: B rows, T positions."""

from collections.abc import Iterator, Mapping, Sequence, Set
from math import ceil
from typing import TYPE_CHECKING, Any

from zoo.gym.data.units import Unit, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.backends.base import Batch, SharedPrefix
    from zoo.gym.data.units import Example


GROUP_TOKENS = 4096
"""Groups of answers with more tokens are learned in parts: the activations of 8 answers of 2,048
tokens from a 4 B model would take 6 GB, with recomputing."""

LEAST_SHARED = 8
"""Single rows that begin with fewer common tokens than these are computed in full: it saves little,
and nearly every template begins with two or three."""


def collate(
    units: "Sequence[Unit]",
    constants: Mapping[str, float] | None = None,
    *,
    temperature: float = 1.0,
) -> "Batch":
    """Pads the rows of units on the right to the longest and returns them as one batch.

    The batch's `prefix` is the common beginning of a unit's rows, usually its prompt; for units of
    one row it is the common beginning of all rows, such as a system prompt. Statistics are those of
    the logits divided by `temperature`. Extras become float32, int64 or bool of the usual width.

    Raises:
        ValueError: there are no units, some rows have extras that others lack, or the shape, the
            name or the type of an extra is not allowed.
    """
    import numpy as np

    from zoo.backends.base import Batch

    if not units:
        raise ValueError("batch: expected at least one unit, got none")
    rows = rows_of(units)
    lengths_B = np.array([len(row.ids) for row in rows], dtype=np.int64)
    shape = (len(rows), int(lengths_B.max()))
    ids_BT, mask_BT = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for index, row in enumerate(rows):
        ids_BT[index, : len(row.ids)] = row.ids
        mask_BT[index, : len(row.ids)] = row.mask
    extras = _extras(rows, shape[1], {"mask", "lengths", *(constants or ())})
    prefix = _prefix(units)
    return Batch(
        ids_BT,
        lengths_B,
        mask_BT,
        extras,
        constants=dict(constants or {}),
        temperature=temperature,
        prefix=prefix,
    )


def _prefix(units: "Sequence[Unit]") -> "SharedPrefix | None":
    """Returns the tokens that the rows of each unit begin with; None without any."""
    import numpy as np

    from zoo.backends.base import SharedPrefix

    if all(len(unit.rows) == 1 for unit in units):
        joined = Unit(rows_of(units))
        units = [joined] if joined.shared_tokens >= LEAST_SHARED else units
    lengths_R = np.array([unit.shared_tokens for unit in units], dtype=np.int64)
    if not lengths_R.any():
        return None
    prompt_B = np.repeat(np.arange(len(units)), [len(unit.rows) for unit in units])
    return SharedPrefix(prompt_B, lengths_R)


def _extras(rows: "Sequence[Example]", width: int, reserved: Set[str]) -> "dict[str, NDArray[Any]]":
    """Joins the extras of rows: numbers to `[B]`, arrays padded with zeros to `[B, T]`."""
    import numpy as np

    names = rows[0].extras.keys()
    for row in rows:
        if row.extras.keys() != names:
            odd = min(row.extras.keys() ^ names)
            raise ValueError(f"extras: expected the same in every row, got {odd!r} in some only")
    if taken := sorted(reserved & names):
        raise ValueError(f"extras: expected other names than the batch's own, got {taken[0]!r}")
    joined: dict[str, NDArray[Any]] = {}
    for name in names:
        arrays = [_extra(row, name) for row in rows]
        if len({array.ndim for array in arrays}) > 1:
            raise ValueError(f"extras: {name!r}: expected all numbers or all arrays, got both")
        pads = [width - len(array) if array.ndim else 0 for array in arrays]
        joined[name] = np.stack(
            [np.pad(a, (0, pad)) if pad else a for a, pad in zip(arrays, pads, strict=True)]
        )
    return joined


def _extra(row: "Example", name: str) -> "NDArray[Any]":
    """Returns an extra of a row as the engines take it: float32, int64 or bool, `[]` or `[T]`."""
    import numpy as np

    extra = np.asarray(row.extras[name])
    if extra.shape not in {(), row.ids.shape}:
        raise ValueError(
            f"{row.source}: extra {name!r}: expected a number or an array of shape "
            f"{row.ids.shape}, one value per token, got {extra.shape}"
        )
    kinds = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}
    if extra.dtype.kind not in kinds:
        raise ValueError(f"{row.source}: extra {name!r}: expected numbers, got {extra.dtype}")
    return extra.astype(kinds[extra.dtype.kind], copy=False)


def cut_groups(units: "Sequence[Unit]", max_tokens: int) -> "list[Unit]":
    """Returns the units with groups wider than `max_tokens` cut into parts of about as many rows.

    Only for rows that are learned one by one: each part computes the group's prompt anew.
    """
    cut: list[Unit] = []
    for unit in units:
        parts = ceil(len(unit.rows) / max(1, max_tokens // unit.longest))
        size = ceil(len(unit.rows) / parts)
        cuts = range(0, len(unit.rows), size)
        cut += [unit] if parts == 1 else [Unit(unit.rows[at : at + size]) for at in cuts]
    return cut


def micro_batches(
    units: "Sequence[Unit]", *, max_batch_tokens: int | None = None, max_units: int | None = None
) -> "Iterator[list[Unit]]":
    """Groups units of similar length into batches, to minimise padding.

    Args:
        units: sorted by decreasing length; ties keep their order.
        max_batch_tokens: limit of rows times the longest row; a wider unit gets its own batch.
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


def first_fit(units: "Sequence[Unit]", *, max_tokens: int) -> "list[list[Unit]]":
    """Groups units into batches without padding: first fit decreasing.

    Each unit, from the longest to the shortest, goes to the first batch that has room for it. The
    result has at most 11/9 of the minimum number of batches, plus four (Johnson et al. 1974, doi
    10.1137/0203025).

    Args:
        units: in any order; ties keep it.
        max_tokens: limit of the tokens of all rows; a larger unit gets its own batch.
    """
    batches: list[list[Unit]] = []
    room: list[int] = []
    for unit in sorted(units, key=lambda unit: -unit.tokens):
        fits = (index for index, left in enumerate(room) if unit.tokens <= left)
        index = next(fits, len(room))
        if index == len(room):
            batches.append([])
            room.append(max_tokens)
        batches[index].append(unit)
        room[index] -= unit.tokens
    return batches
