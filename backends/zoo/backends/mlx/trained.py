"""The trained parameters: saving and loading, in the files and under the names of every engine."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from zoo.backends.mlx.language import Slot
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE = "trained.safetensors"


def to_host(value: mx.array) -> "NDArray[np.float32]":
    """Returns a float32 copy on the host."""
    return np.array(value.astype(mx.float32))


def copies(slots: Mapping[str, Slot]) -> "Iterator[tuple[str, NDArray[np.float32]]]":
    """Yields each value as a float32 copy on the host."""
    for name, slot in slots.items():
        yield name, to_host(slot.get())


def save(slots: Mapping[str, Slot], folder: Path) -> None:
    """Writes the values as safetensors."""
    from safetensors.numpy import save_file

    save_file(dict(copies(slots)), folder / FILE)


def load(slots: Mapping[str, Slot], folder: Path) -> None:
    """Restores what `save` wrote, bit for bit.

    Raises:
        InputError: the names or shapes are not those of the parameters.
    """
    from safetensors.numpy import load_file

    assign(slots, load_file(folder / FILE), str(folder / FILE))


def assign(
    slots: Mapping[str, Slot], values: "Mapping[str, NDArray[np.float32]]", source: str
) -> None:
    """Copies values into the parameters of the same names.

    Raises:
        InputError: the names or shapes are not those of the parameters; the message has `source`.
    """
    if values.keys() != slots.keys():
        odd = sorted(values.keys() ^ slots.keys())[0]
        raise InputError(
            f"{source}: {odd}: in only one of the checkpoint and this policy",
            code="backends.other_checkpoint",
        )
    for name, slot in slots.items():
        expected, got = tuple(slot.get().shape), tuple(values[name].shape)
        if expected != got:
            raise InputError(
                f"{source}: {name}: shape mismatch: expected {expected}, got {got}",
                code="backends.other_checkpoint",
            )
    for name, slot in slots.items():
        slot.put(mx.array(values[name].astype(np.float32)))
