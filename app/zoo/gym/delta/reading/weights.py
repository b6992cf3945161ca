"""Reads a model's tensors one by one from a folder, sharded or not, or one safetensors file.

Arrays are views of the file until they are used, so a whole model is never in memory. A mapped file
must not become shorter meanwhile, which would end the process: adapters, small and from strangers,
are opened once and read instead. bfloat16 travels as uint16.
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
"""The types that a delta can be taken of, as safetensors and as zoo.core name them."""

_NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
CONSTANTS = (".attn.bias", ".attention.bias", ".masked_bias", ".causal_mask")
"""Endings of masks that old checkpoints store and new ones do not."""

_NO_WEIGHT = ".rotary_emb.inv_freq"  # a constant that old checkpoints stored


@dataclass(frozen=True)
class Weights:
    """The tensors of a model on disk.

    Attributes:
        source: the folder or file they were found in, for messages.
        files: the safetensors files.
        tensors: by name, the file that holds the tensor and where in it.
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
        """Returns the bytes that a tensor takes in its file."""
        info = self.tensors[name][1]
        return info.stop - info.start

    def dtype(self, name: str) -> str:
        """Returns the type of a tensor by its safetensors name: `F32`, `BF16`, ..."""
        return self.tensors[name][1].dtype


def open_weights(source: Path, *, mapped: bool = True) -> Weights:
    """Reads the headers of a model folder or a safetensors file.

    Args:
        source: the folder or the file.
        mapped: whether tensors are views of the files; else each is read whole from the file that
            was opened here.

    Raises:
        NotAvailableError: there is nothing at `source`.
        InputError: no safetensors weights there, or a malformed file.

    Warns:
        GymWarning: the folder holds a second set of weights, which is not used.
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
                raise InputError(f"{file}: tensor {name!r} is in {tensors[name][0].name!r} as well")
            tensors[name] = (file, info)
    return Weights(source, files, tensors, opened)


def stored_bytes(weights: Weights, name: str) -> "NDArray[np.uint8]":
    """Returns a tensor's bytes as the file holds them; those of a mapped file are not read yet."""
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
        InputError: the tensor is of another type than float32, float16 or bfloat16.
    """
    import numpy as np

    dtype = weights.dtype(name)
    if dtype not in FLOATS:
        where = f"{weights.source}: tensor {name!r}"
        raise InputError(f"{where}: expected a type of {', '.join(FLOATS)}, got {dtype!r}")
    array = stored_bytes(weights, name).view(_NUMPY[dtype]).reshape(weights.shape(name))
    return np.require(array, requirements=["C", "A"])


def read_values(weights: Weights, name: str) -> Values:
    """Returns a float tensor of a model without reading it yet.

    Raises:
        InputError: the tensor is of another type than float32, float16 or bfloat16.
    """
    return Values(read_stored(weights, name), FLOATS[weights.dtype(name)], str(weights.source))


def read_float32(weights: Weights, name: str) -> "NDArray[np.float32]":
    """Returns a float tensor as a float32 copy; exact for every type that it reads."""
    import numpy as np

    stored = read_stored(weights, name)
    if weights.dtype(name) == "BF16":
        return from_bf16(stored)
    return np.array(stored, np.float32)


def own_tensors(weights: Weights, *, tied: bool) -> set[str]:
    """Returns the names that carry weights of their own: no tied head, no stored constant."""
    names = {name for name in weights.tensors if not name.endswith(_NO_WEIGHT)}
    return names - {HEAD} if tied else names


def is_tied(weights: Weights) -> bool:
    """Says whether the head is the embedding, as transformers does.

    A head that is stored with other values than the embedding stays what it is, whatever the config
    says. Without one in the files, or with the same values, the config decides.
    """
    config = read_config(weights.source) if weights.source.is_dir() else {}
    copy = head_is_copy(weights.tensors)
    if HEAD in weights.tensors and not copy:
        return False
    told = config.get("tie_word_embeddings")
    return copy if told is None else bool(told)


def same_values(first: "NDArray[np.uint8]", second: "NDArray[np.uint8]") -> bool:
    """Says whether two arrays hold the same bytes, looking at a piece at a time."""
    import numpy as np

    return first.size == second.size and all(
        np.array_equal(first[part], second[part]) for part in blocks(first.size)
    )
