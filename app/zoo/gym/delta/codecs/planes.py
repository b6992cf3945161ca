"""One plane of signs, with any scale and either treatment of zeros, as zoo.core packs it."""

from typing import TYPE_CHECKING

from zoo.gym.delta.codecs.values import Stored
from zoo.gym.delta.file.terms import GROUP, Scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pack_plane(
    base: Stored, tuned: Stored, scale: Scale, *, mask: bool
) -> "tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8] | None]":
    """Returns bits, scales and, where asked for, the mask of a matrix's difference.

    Raises:
        InputError: a value is not finite, or the mean difference overflows float32.
    """
    from zoo.core import pack_signs

    packed = pack_signs(
        base.values,
        tuned.values,
        scale=scale,
        group=GROUP,
        zeros="mask" if mask else "minus",
        base_dtype=base.dtype,
        tuned_dtype=tuned.dtype,
    )
    return packed[0], packed[1], packed[2] if len(packed) == 3 else None


def add_plane(
    total: "NDArray[np.float32]",
    bits: "NDArray[np.uint8]",
    scales: "NDArray[np.float32]",
    scale: Scale,
    mask: "NDArray[np.uint8] | None",
) -> None:
    """Adds plus or minus the scales to some rows, in place; nothing where the mask is 0."""
    from zoo.core import apply_signs

    apply_signs(total, bits, scales, scale=scale, group=GROUP, mask=mask)
