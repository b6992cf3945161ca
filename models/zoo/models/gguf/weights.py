"""Writes the weights of a GGUF file as safetensors, one at a time.

Matrices in codes or bfloat16 become bfloat16; float16 and float32 stay what they are. No more than
one weight is in memory as float32.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.core.errors import InputError
from zoo.models.checkpoint_files import INDEX_FILE, SINGLE_FILE
from zoo.models.gguf.layout import Layout, Weight
from zoo.models.gguf.parts import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dtype: TypeAlias = Literal["F32", "F16", "BF16"]

SHARD_BYTES = 5_000_000_000
"""The most bytes of weights in a file, unless one weight is larger."""

DTYPE_BYTES: dict[Dtype, int] = {"F32": 4, "F16": 2, "BF16": 2}
TORCH_NAMES: dict[Dtype, str] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class Plan:
    """What will be written.

    Attributes:
        dtype: the type of the matrices.
        dtypes: the type of each weight by name.
        shards: the weights of each file in order.
    """

    dtype: Dtype
    dtypes: dict[str, Dtype]
    shards: tuple[tuple[Weight, ...], ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of all weights."""
        return sum(self.bytes_of(weight) for shard in self.shards for weight in shard)

    def bytes_of(self, weight: Weight) -> int:
        """Returns the bytes of a weight."""
        return prod(weight.shape) * DTYPE_BYTES[self.dtypes[weight.name]]


def plan_weights(source: Source, layout: Layout, dtype: Dtype | None = None) -> Plan:
    """Decides on types and files.

    Args:
        source: the open file.
        layout: the weights that it has.
        dtype: the type of all; None keeps what the file has, or bfloat16 for codes.

    Raises:
        InputError: a tensor has a type that cannot be dequantised.
    """
    for kind in source.type_counts():
        _refuse_unknown(source, kind)
    dtypes: dict[str, Dtype]
    if dtype is None:
        dtype = matrix_dtype(source)
        dtypes = {weight.name: _dtype_of(source, weight, dtype) for weight in layout.weights}
    else:
        dtypes = dict.fromkeys((weight.name for weight in layout.weights), dtype)
    shards: list[list[Weight]] = [[]]
    room = SHARD_BYTES
    for weight in layout.weights:
        size = prod(weight.shape) * DTYPE_BYTES[dtypes[weight.name]]
        if shards[-1] and size > room:
            shards.append([])
            room = SHARD_BYTES
        shards[-1].append(weight)
        room -= size
    return Plan(dtype, dtypes, tuple(map(tuple, shards)))


def matrix_dtype(source: Source) -> Dtype:
    """Returns the type that the matrices of a file will have."""
    every = source.type_counts().keys()
    kinds = {tensor.type for _, tensor in source.tensors.values() if len(tensor.shape) > 1}
    kinds = kinds or set(every)
    return "F32" if kinds == {"F32"} else "F16" if kinds <= {"F16", "F32"} else "BF16"


def imported_bytes(source: Source) -> int:
    """Returns about how many bytes the imported weights take, from the header alone."""
    count = sum(prod(tensor.shape) for _, tensor in source.tensors.values())
    return count * DTYPE_BYTES[matrix_dtype(source)]


def write_weights(source: Source, layout: Layout, plan: Plan, folder: Path) -> None:
    """Writes the files of a plan.

    Raises:
        InputError: a tensor has another shape than the model's, values that are not finite, or
            the file has become shorter.
        OSError: they cannot be written.
    """
    count = len(plan.shards)
    names = [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
    names = [SINGLE_FILE] if count == 1 else names
    for name, shard in zip(names, plan.shards, strict=True):
        with (folder / name).open("wb") as stream:
            stream.write(_header(shard, plan))
            for content in _contents(source, layout, plan, shard):
                stream.write(content.data)
    if count > 1:
        index = {
            "metadata": {"total_size": plan.size_bytes},
            "weight_map": {
                weight.name: name
                for name, shard in zip(names, plan.shards, strict=True)
                for weight in shard
            },
        }
        (folder / INDEX_FILE).write_text(f"{json.dumps(index, indent=2)}\n", encoding="utf-8")


def dequantised(source: Source, name: str) -> "NDArray[np.float32]":
    """Returns the values of a tensor in its shape."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    tensor = source.tensors[name][1]
    kind = GGMLQuantizationType[tensor.type]
    block, block_bytes = GGML_QUANT_SIZES[kind]
    content = source.read(name)
    if 0 in tensor.shape:
        raise InputError(
            f"'{source.path}': tensor '{name}' is empty: {list(tensor.shape)}",
            code="models.gguf_tensor_shape",
        )
    rows = content.reshape(*tensor.shape[:-1], tensor.shape[-1] // block * block_bytes)
    with np.errstate(all="ignore"):
        return np.asarray(dequantize(rows, kind), np.float32).reshape(tensor.shape)


def _dtype_of(source: Source, weight: Weight, dtype: Dtype) -> Dtype:
    """Returns a weight's type: float32 beside float16 matrices keeps its values."""
    types = {source.tensors[name][1].type for name in weight.tensors}
    return "F32" if dtype == "F16" and types == {"F32"} else dtype


def _refuse_unknown(source: Source, kind: str) -> None:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    codes = getattr(GGMLQuantizationType, kind, None)
    try:
        if codes is None:
            raise NotImplementedError
        with np.errstate(all="ignore"):
            dequantize(np.zeros((1, GGML_QUANT_SIZES[codes][1]), np.uint8), codes)
    except NotImplementedError:
        names = (name for name, (_, tensor) in source.tensors.items() if tensor.type == kind)
        raise InputError(
            f"'{source.path}': tensor '{next(names)}': values of type {kind} cannot be read",
            code="models.gguf_tensor_type",
        ) from None


def _header(shard: Sequence[Weight], plan: Plan) -> bytes:
    """Returns the first bytes of a safetensors file, padded to 8."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for weight in shard:
        stop = start + plan.bytes_of(weight)
        dtype = plan.dtypes[weight.name]
        entries[weight.name] = {
            "dtype": dtype,
            "shape": list(weight.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _contents(
    source: Source, layout: Layout, plan: Plan, shard: Sequence[Weight]
) -> Iterator["NDArray[np.uint8]"]:
    for weight in shard:
        values = {name: dequantised(source, name) for name in weight.tensors}
        yield _rounded(source, weight, _arranged(source, layout, weight, values), plan)


def _arranged(
    source: Source, layout: Layout, weight: Weight, values: "Mapping[str, NDArray[np.float32]]"
) -> "NDArray[np.float32]":
    import numpy as np

    shapes = " and ".join(str(list(array.shape)) for array in values.values())
    names = " and ".join(f"'{name}'" for name in weight.tensors)
    try:
        with np.errstate(all="ignore"):
            arranged = layout.arrange(weight, values)
    except (ValueError, RuntimeError, IndexError, ZeroDivisionError):
        arranged = np.empty(0, np.float32)
    if arranged.shape != weight.shape:
        raise InputError(
            f"'{source.path}': tensor {names}: expected a shape for '{weight.name}' of "
            f"{list(weight.shape)}, got {shapes}",
            code="models.gguf_tensor_shape",
        )
    return arranged


def _rounded(
    source: Source, weight: Weight, values: "NDArray[np.float32]", plan: Plan
) -> "NDArray[np.uint8]":
    """Returns the bytes of a weight in its type, rounded to the nearest, ties to even."""
    import torch

    dtype = getattr(torch, TORCH_NAMES[plan.dtypes[weight.name]])
    tensor = torch.from_numpy(values).to(dtype)
    if not bool(torch.isfinite(tensor).all()):
        raise InputError(
            f"'{source.path}': tensor '{weight.tensors[0]}': expected finite values, "
            "got infinity or NaN",
            code="models.not_finite",
        )
    content: NDArray[np.uint8] = tensor.reshape(-1).view(torch.uint8).numpy()
    return content
