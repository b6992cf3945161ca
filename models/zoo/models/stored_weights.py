"""The weights in a model's files; codes of few bits are counted as the weights that they stand for.

mlx-lm packs codes into 32-bit words, beside tensors `scales` and `biases`; bitsandbytes packs two
4-bit codes into a byte, beside `weight.absmax` and others, or has one 8-bit code for each weight,
beside `SCB`. Only headers are read, and of 4-bit codes a record of their shape.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.core import TensorInfo, read_header
from zoo.models.checkpoint_files import checkpoint_files

WORD_BITS = 32
WEIGHT = ".weight"

MLX_PARTS = (".scales", ".biases")
INT8_PARTS = (".SCB", ".weight_format")
ABSMAX = ".absmax"
QUANT_STATE = ".quant_state.bitsandbytes__"
"""The start of the name of the tensor with JSON that has the shape of a 4-bit weight."""


@dataclass(frozen=True)
class StoredWeight:
    """A weight of a model.

    Attributes:
        dtype: the type in the file; of codes that of the words that hold them.
        shape: that of the weights, in one dimension if the files do not say more.
        code_bytes: the size of the codes with their scales; 0 for a weight in plain numbers.
    """

    dtype: str
    shape: tuple[int, ...]
    code_bytes: int = 0

    @property
    def count(self) -> int:
        """The number of weights."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Codes:
    """How many weights of a model are in codes, and their size with scales."""

    weights: int
    stored_bytes: int

    @property
    def bits_a_weight(self) -> float:
        """The mean bits of a weight in codes, with its share of scales; 0 without codes."""
        return 8 * self.stored_bytes / self.weights if self.weights else 0.0


def stored_weights(folder: Path, config: Mapping[str, Any]) -> dict[str, StoredWeight]:
    """Returns the weights in a model's files by name.

    Args:
        folder: the model's.
        config: its config.json.

    Raises:
        InputError: the folder contains no readable safetensors model.
    """
    files = {file: read_header(file).tensors for file in checkpoint_files(folder)}
    tensors = {name: info for weights in files.values() for name, info in weights.items()}
    homes = {name: file for file, weights in files.items() for name in weights}
    parts: dict[str, list[str]] = {}
    for name in tensors:
        if (owner := _owner(name, tensors)) is not None:
            parts.setdefault(owner, []).append(name)
    owned = {name for names in parts.values() for name in names}
    weights: dict[str, StoredWeight] = {}
    for name, info in tensors.items():
        if name in parts:
            size = sum(_bytes(tensors[each]) for each in (name, *parts[name]))
            shape = _shape(name, tensors, homes, config)
            weights[name] = StoredWeight(info.dtype, shape, size)
        elif name not in owned:
            weights[name] = StoredWeight(info.dtype, tuple(info.shape))
    return weights


def stored_codes(folder: Path, config: Mapping[str, Any]) -> Codes:
    """Returns how much of a model's files is in codes.

    Args:
        folder: the model's.
        config: its config.json.

    Raises:
        InputError: the folder contains no readable safetensors model.
    """
    coded = [weight for weight in stored_weights(folder, config).values() if weight.code_bytes]
    return Codes(sum(weight.count for weight in coded), sum(weight.code_bytes for weight in coded))


def _owner(name: str, tensors: Mapping[str, TensorInfo]) -> str | None:
    """Returns the weight in codes that a tensor is a part of, or None for a weight of its own."""
    stem, sign, _ = name.partition(f"{WEIGHT}.")
    if sign:
        weight = stem + WEIGHT
        return weight if weight in tensors and f"{weight}{ABSMAX}" in tensors else None
    for kinds, dtype in ((MLX_PARTS, "U32"), (INT8_PARTS, "I8")):
        for kind in kinds:
            weight = name.removesuffix(kind) + WEIGHT
            if name.endswith(kind) and weight in tensors and tensors[weight].dtype == dtype:
                return weight
    return None


def _shape(
    name: str,
    tensors: Mapping[str, TensorInfo],
    homes: Mapping[str, Path],
    config: Mapping[str, Any],
) -> tuple[int, ...]:
    """Returns the shape of the weights that codes stand for."""
    info = tensors[name]
    if f"{name}{ABSMAX}" in tensors:
        count = 2 * _bytes(info)
        state = next(
            (
                weight_name
                for weight_name in tensors
                if weight_name.startswith(f"{name}{QUANT_STATE}")
            ),
            None,
        )
        stated = () if state is None else _told_shape(homes[state], tensors[state])
        return stated if math.prod(stated) == count else (count,)
    if info.dtype != "U32":
        return tuple(info.shape)
    bits = _mlx_bits(name.removesuffix(WEIGHT), config)
    return (*info.shape[:-1], info.shape[-1] * WORD_BITS // bits)


def _mlx_bits(layer: str, config: Mapping[str, Any]) -> int:
    """Returns the bits of a layer's codes; those of a word if the config does not say."""
    settings = config.get("quantization") or config.get("quantization_config")
    if not isinstance(settings, Mapping):
        return WORD_BITS
    layer_settings = settings.get(layer)
    bits = (layer_settings if isinstance(layer_settings, Mapping) else settings).get("bits")
    return bits if isinstance(bits, int) and 0 < bits <= WORD_BITS else WORD_BITS


def _told_shape(file: Path, info: TensorInfo) -> tuple[int, ...]:
    """Returns the shape in the record of 4-bit codes, or () if it has none."""
    with file.open("rb") as stream:
        stream.seek(info.start)
        record = stream.read(_bytes(info))
    try:
        shape = json.loads(record)["shape"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    good = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    return tuple(shape) if good else ()


def _bytes(info: TensorInfo) -> int:
    return info.stop - info.start
