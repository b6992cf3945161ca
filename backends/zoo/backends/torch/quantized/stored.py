"""Reads the tensors of a model's files one at a time, and checks their values.

The library safetensors maps whole files into memory; what was read stays there until a file is
closed. Here each tensor is read into memory of its own, which is free again once it is quantised.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.backends.torch.numbers.finite import first_not_finite
from zoo.backends.torch.quantized.pages import own_pages
from zoo.core import OpenFile, TensorInfo, read_header
from zoo.core.errors import InputError

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The types of a base to quantise, and of masks and indices in its files."""


class StoredTensor:
    """A tensor in a file, which is read each time that it is indexed.

    transformers accepts it in place of a tensor; `[...]` returns all of it.

    Args:
        file: an open file.
        name: the name of the tensor, for messages.
        info: its place in the file.
        faults: a list that gets a sentence for each value that is not finite; transformers collects
            errors that are raised while it loads, and reports something else.
    """

    def __init__(self, file: OpenFile, name: str, info: TensorInfo, faults: list[str]) -> None:
        self._file, self._name, self._info, self._faults = file, name, info, faults

    @property
    def shape(self) -> torch.Size:
        """The shape."""
        return torch.Size(self._info.shape)

    def get_shape(self) -> list[int]:
        """Returns the shape, as a slice of the library safetensors does."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """Returns the name of the type in the file."""
        return self._info.dtype

    def __getitem__(self, index: Any) -> Tensor:  # noqa: ANN401 - as a tensor's
        info = self._info
        room = own_pages(info.stop - info.start)
        self._file.read_into(room.numpy(), info.start)
        values = room.view(TYPES[info.dtype])
        if values.is_floating_point() and (bad := first_not_finite(values)) is not None:
            value = values[bad].item()
            self._faults.append(f"{self._name}: value {bad} is {value}: expected finite weights")
        return values.view(info.shape)[index]


def stored_tensors(files: Sequence[Path], faults: list[str]) -> dict[str, StoredTensor]:
    """Returns all tensors of a model's files by name; none is read yet.

    Args:
        files: safetensors files.
        faults: see `StoredTensor`.

    Raises:
        InputError: a tensor has a type without plain values.
    """
    tensors: dict[str, StoredTensor] = {}
    for path in files:
        file = OpenFile(path)
        for name, info in read_header(file).tensors.items():
            if info.dtype not in TYPES:
                expected = ", ".join(TYPES)
                text = f"{path}: {name}: expected {expected} to quantise, got {info.dtype}"
                raise InputError(text, code="backends.weight_type")
            tensors[name] = StoredTensor(file, name, info, faults)
    return tensors
