"""Reads a model's tensors one by one from a folder, sharded or not, or one safetensors file.

Arrays are views of mapped files, so a full model is never in memory. Truncating a mapped file would
kill the process, so adapters, which are small and untrusted, are opened once and read instead.
bfloat16 is read as uint16.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.gym.delta.codecs.floats import blocks, from_bf16
from zoo.gym.delta.codecs.values import Values
from zoo.gym.errors import InputError, NotAvailableError
from zoo.models.folder import read_config
from zoo.models.tied_head import HEAD, head_is_copy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core import OpenFile, TensorInfo

FLOATS: "Mapping[str, Literal['f32', 'f16', 'bf16']]" = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
"""The types that deltas support, by their names in safetensors and in zoo.core."""

_NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_OTHERS = {f"{kind}{8 * n}": f"<{kind.lower()}{n}" for kind in "IU" for n in (1, 2, 4, 8)}
_OTHERS |= {"BOOL": "?", "F64": "<f8"}
CONSTANTS = (".attn.bias", ".attention.bias", ".masked_bias", ".causal_mask")
"""Suffixes of masks that old checkpoints store and new ones do not."""

_NO_WEIGHT = ".rotary_emb.inv_freq"  # a constant that old checkpoints stored


@dataclass(frozen=True)
class Weights:
    """The tensors of a model on disk.

    Attributes:
        source: the folder or file, for messages.
        files: the safetensors files.
        tensors: the file of each tensor and its location in it, by name.
        opened: the files that are read, not mapped.
    """

    source: Path
    files: tuple[Path, ...]
    tensors: "Mapping[str, tuple[Path, TensorInfo]]"
    opened: "Mapping[Path, OpenFile]" = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return tuple(self.tensors[name][1].shape)

    def nbytes(self, name: str) -> int:
        """Returns the size of a tensor in its file, in bytes."""
        info = self.tensors[name][1]
        return info.stop - info.start

    def dtype(self, name: str) -> str:
        """Returns the type of a tensor by its safetensors name: `F32`, `BF16`, ..."""
        return self.tensors[name][1].dtype


def open_weights(source: Path, *, mapped: bool = True) -> Weights:
    """Reads the headers of a model folder or a safetensors file.

    Args:
        source: the folder or the file.
        mapped: True for views of mapped files; False to read each tensor from files that are opened
            now.

    Raises:
        NotAvailableError: `source` does not exist.
        InputError: it has no safetensors weights, or a malformed file.

    Warns:
        GymWarning: the folder contains a second set of weights, which is not used.
    """
    from zoo.core import OpenFile, read_header
    from zoo.models.checkpoint_files import checkpoint_files, warn_of_unused_weights

    if not source.exists():
        raise NotAvailableError(f"no such file or folder: {str(source)!r}")
    files = (source,) if source.is_file() else tuple(checkpoint_files(source))
    if source.is_dir():
        warn_of_unused_weights(source)
    tensors: dict[str, tuple[Path, TensorInfo]] = {}
    opened = {} if mapped else {file: OpenFile(file) for file in files}
    for file in files:
        for name, info in read_header(opened.get(file, file)).tensors.items():
            if name in tensors:
                raise InputError(f"{file}: tensor {name!r} is in {tensors[name][0].name!r}, too")
            tensors[name] = (file, info)
    return Weights(source, files, tensors, opened)


def stored_bytes(weights: Weights, name: str) -> "NDArray[np.uint8]":
    """Returns a tensor's stored bytes; those of a mapped file are read when they are used."""
    import numpy as np

    file, info = weights.tensors[name]
    if info.start == info.stop:
        return np.empty(0, np.uint8)
    if file in weights.opened:
        return weights.opened[file].read(info.start, info.stop)
    return np.memmap(file, np.uint8, "r", offset=info.start, shape=(info.stop - info.start,))


def read_stored(weights: Weights, name: str) -> "NDArray[Any]":
    """Returns a float tensor in its stored type and shape; bf16 as uint16.

    Raises:
        InputError: the tensor is not float32, float16 or bfloat16.
    """
    import numpy as np

    dtype = weights.dtype(name)
    if dtype not in FLOATS:
        where = f"{weights.source}: tensor {name!r}"
        raise InputError(f"{where}: expected a type of {', '.join(FLOATS)}, got {dtype!r}")
    array = stored_bytes(weights, name).view(_NUMPY[dtype]).reshape(weights.shape(name))
    return np.require(array, requirements=["C", "A"])


def read_values(weights: Weights, name: str) -> Values:
    """Returns a float tensor of a model; mapped files are read when the values are used.

    Raises:
        InputError: the tensor is not float32, float16 or bfloat16.
    """
    return Values(read_stored(weights, name), FLOATS[weights.dtype(name)], str(weights.source))


def read_float32(weights: Weights, name: str) -> "NDArray[np.float32]":
    """Returns a float tensor as a float32 copy; exact for all supported types."""
    import numpy as np

    stored = read_stored(weights, name)
    if weights.dtype(name) == "BF16":
        return from_bf16(stored)
    return np.array(stored, np.float32)


def read_array(weights: Weights, name: str) -> "NDArray[Any]":
    """Returns a float tensor as a float32 copy, others as they are stored."""
    if dtype := _OTHERS.get(weights.dtype(name)):
        return stored_bytes(weights, name).view(dtype).reshape(weights.shape(name))
    return read_float32(weights, name)


def float_config(folder: Path) -> dict[str, Any]:
    """Returns the config of a model whose weights are floats.

    Raises:
        InputError: it is quantised.
    """
    config = read_config(folder)
    if config.get("quantization_config") or config.get("quantization"):
        raise InputError(f"{folder}: expected float weights, got a quantised model")
    return config


def own_tensors(weights: Weights, *, tied: bool) -> set[str]:
    """Returns the names of tensors with their own weights: without a tied head and constants."""
    names = {name for name in weights.tensors if not name.endswith(_NO_WEIGHT)}
    return names - {HEAD} if tied else names


def is_tied(weights: Weights) -> bool:
    """Returns whether the head is tied to the embedding, as in transformers.

    A stored head with other values than the embedding is not tied, whatever the config says.
    Without a stored head, or with the same values, the config decides.
    """
    config = read_config(weights.source) if weights.source.is_dir() else {}
    copy = head_is_copy(weights.tensors)
    if HEAD in weights.tensors and not copy:
        return False
    tied = config.get("tie_word_embeddings")
    return copy if tied is None else bool(tied)


def same_values(first: "NDArray[np.uint8]", second: "NDArray[np.uint8]") -> bool:
    """Returns whether two arrays have the same bytes, comparing them block by block."""
    import numpy as np

    return first.size == second.size and all(
        np.array_equal(first[part], second[part]) for part in blocks(first.size)
    )
