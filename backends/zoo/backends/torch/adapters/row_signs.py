"""Matrices that rows of a batch change by signs of their own, which stay packed in memory.

Legend: B rows, T positions, N tokens, I inputs, O outputs, V vocabulary, D hidden size.

y = W x + scale * (S x). On a CPU the core multiplies the bits as they are: to unpack them first is
no faster with hundreds of tokens either. On another device blocks of them are unpacked. Not
covered: scales of groups, several planes.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from zoo.backends.batching import Signs
from zoo.backends.torch.numbers.widened import BLOCK_WEIGHTS, core_isa
from zoo.core import sign_product
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core import Isa

Places: TypeAlias = slice | list[int]
"""Rows of a batch; neighbours as a slice, whose rows are not copied."""


def places_of(rows: list[int]) -> Places:
    """Returns rows, in rising order, as a slice if they are neighbours."""
    first, last = rows[0], rows[-1]
    return slice(first, last + 1) if last - first < len(rows) else rows


class RowSigns:
    """The signs of a matrix, on the device of a model.

    With a mask there are two planes, `bits & mask` and `~bits & mask`, with half the scale and with
    minus half of it: a weight that is masked is minus in both, so it cancels.

    Args:
        signs: the signs; on a CPU their memory is used as it is if there is no mask.
        device: where the model is.
    """

    def __init__(self, signs: Signs, device: torch.device) -> None:
        bits_OI = torch.as_tensor(signs.bits, device=device)
        scales = torch.as_tensor(signs.scales, device=device)
        self._columns_I = scales if signs.scale == "column" else None
        scales_O = scales.new_ones(1) if signs.scale == "column" else scales
        self._planes = [(bits_OI, scales_O)]
        if signs.mask is not None:
            mask_OI = torch.as_tensor(signs.mask, device=device)
            half_O = scales_O / 2
            self._planes = [(bits_OI & mask_OI, half_O), (~bits_OI & mask_OI, -half_O)]
        if device.type == "cpu":
            self._columns = None if self._columns_I is None else self._columns_I.numpy()
            self._arrays = [(bits.numpy(), scales.numpy()) for bits, scales in self._planes]

    def add_by_core(
        self, x: "NDArray[np.float32]", y: "NDArray[np.float32]", isa: "Isa | None"
    ) -> None:
        """Adds the product with tokens x [N, I] to y [N, O], in place.

        What cannot be summed in float32 becomes NaN, as it would in a product of floats.
        """
        if self._columns is not None:
            x = x * self._columns
        threads = torch.get_num_threads()
        for bits, scales in self._arrays:
            try:
                sign_product(x, bits, scales, out=y, add=True, isa=isa, threads=threads)
            except InputError:  # the numbers of a broken adapter: the other tokens are not to fail
                for token in range(len(x)):
                    row, out = x[token : token + 1], y[token : token + 1]
                    try:
                        sign_product(row, bits, scales, out=out, add=True, isa=isa, threads=threads)
                    except InputError:
                        out.fill(float("nan"))

    def add_unpacked(self, x_NI: Tensor, y_NO: Tensor) -> None:
        """Adds the product with tokens to `y_NO`, in place."""
        outputs, inputs = y_NO.shape[1], x_NI.shape[1]
        if self._columns_I is not None:
            x_NI = x_NI * self._columns_I
        height = max(1, BLOCK_WEIGHTS // inputs)
        for start in range(0, outputs, height):
            part = slice(start, min(start + height, outputs))
            for bits_OI, scales_O in self._planes:
                signs_OI = _unpacked(bits_OI[part])[:, :inputs]
                y_NO[:, part] += (x_NI @ signs_OI.T) * _of_rows(scales_O, part)

    def rows_of(self, ids: Tensor, size: int) -> Tensor:
        """Returns what is added to the embeddings of tokens, float32 `[..., D]`.

        Args:
            ids: the tokens, `[...]`.
            size: D.
        """
        total = torch.zeros(*ids.shape, size, device=ids.device)
        for bits_OI, scales_O in self._planes:
            total += _unpacked(bits_OI[ids])[..., :size] * _of_rows(scales_O, ids)[..., None]
        return total if self._columns_I is None else total * self._columns_I


def _of_rows(scales_O: Tensor, rows: slice | Tensor) -> Tensor:
    return scales_O if len(scales_O) == 1 else scales_O[rows]


def _unpacked(bits: Tensor) -> Tensor:
    """Returns the signs of packed bits, float32 `[..., 8 * bytes]`."""
    places = torch.arange(8, device=bits.device, dtype=torch.uint8)
    ones: Tensor = (bits[..., None] >> places) & 1
    return ones.flatten(-2).float().mul_(2).sub_(1)


def add_products(
    x: Tensor, y: Tensor, rows: int, signs: Iterable[tuple[Places, RowSigns]]
) -> Tensor:
    """Returns the outputs of a layer with the products of the rows that have signs.

    Args:
        x: the inputs, `[B, T, I]`, or `[B * T, I]` if rows come behind one another.
        y: the outputs; float32 ones are changed in place.
        rows: B.
        signs: the signs, and the rows that have them.
    """
    x_BTI = x.float().contiguous().view(rows, -1, x.shape[-1])
    in_place = y.dtype is torch.float32 and y.is_contiguous()
    total = y if in_place else torch.zeros_like(y, dtype=torch.float32).contiguous()
    total_BTO = total.view(rows, -1, y.shape[-1])
    add = _add_by_core if x.device.type == "cpu" else _add_unpacked
    add(x_BTI, total_BTO, signs)
    return y if in_place else y + total.to(y.dtype)


def _add_by_core(
    x_BTI: Tensor, total_BTO: Tensor, signs: Iterable[tuple[Places, RowSigns]]
) -> None:
    isa, (inputs, outputs) = core_isa(), (x_BTI.shape[-1], total_BTO.shape[-1])
    x, total = x_BTI.numpy(), total_BTO.numpy()  # slices of these take less time than of tensors
    for places, matrix in signs:
        part = total[places]
        matrix.add_by_core(x[places].reshape(-1, inputs), part.reshape(-1, outputs), isa)
        if not isinstance(places, slice):
            total[places] = part


def _add_unpacked(
    x_BTI: Tensor, total_BTO: Tensor, signs: Iterable[tuple[Places, RowSigns]]
) -> None:
    for places, matrix in signs:
        part_BTO = total_BTO[places]
        matrix.add_unpacked(x_BTI[places].flatten(0, 1), part_BTO.flatten(0, 1))
        if not isinstance(places, slice):
            total_BTO[places] = part_BTO


def add_embeddings(
    ids_BT: Tensor, y_BTD: Tensor, signs: Iterable[tuple[Places, RowSigns]]
) -> Tensor:
    """Returns embeddings with what the rows that have signs add to them."""
    changed_BTD = y_BTD.clone()
    for places, matrix in signs:
        change = matrix.rows_of(ids_BT[places], y_BTD.shape[-1])
        changed_BTD[places] = (y_BTD[places].float() + change).to(y_BTD.dtype)
    return changed_BTD
