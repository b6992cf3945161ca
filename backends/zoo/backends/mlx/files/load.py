"""Loads a model folder: safetensors only, with a check of every weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from zoo.backends.mlx.files.families import build
from zoo.backends.mlx.files.quantized import (
    PARTS,
    linear_shape,
    prepare,
    prepare_stored,
    quantized,
    stored_quantization,
)
from zoo.backends.model_folder import (
    read_config,
    refuse_codes,
    refuse_holes,
    tensor_names,
    warn_of_unused,
)
from zoo.backends.spec import QuantizationSpec
from zoo.core import read_header
from zoo.core.errors import InputError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import warn_of_unused_weights

HEAD = "lm_head"
TIED_HEAD = f"{HEAD}.weight"
"""A tensor that some files repeat although it is tied to the embedding."""

DTYPES = {"f32": mx.float32, "bf16": mx.bfloat16}


@dataclass(frozen=True)
class Loaded:
    """A model with its config.

    Attributes:
        model: mlx-lm's model; its parameters have the names of the tensors in the files.
        config: the settings of transformers, with their defaults.
        folder: where it was read.
    """

    model: Any
    config: dict[str, Any]
    folder: Path


def load_model(folder: Path, *, dtype: str, quantization: QuantizationSpec | None = None) -> Loaded:
    """Returns the causal language model in `folder`.

    Args:
        folder: a Hugging Face model folder.
        dtype: one of `DTYPES`, the type of the weights in memory, or of the scales of their codes.
        quantization: quantises the linear layers, one after another.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: it has no config, an architecture that is not one of this engine, or weights
            that do not fit it.

    Warns:
        GymWarning: the files have tensors that are not part of the model.
    """
    loaded = empty_model(folder)
    files = checkpoint_files(folder)
    warn_of_unused_weights(folder)
    if stored_quantization(folder, loaded.config) is None:
        refuse_codes(folder, files)
    weights: dict[str, mx.array] = {}
    for file in files:
        read_header(file)
        weights |= mx.load(str(file))
    layers = {} if quantization is None else prepare(loaded.model, quantization, HEAD)
    _assign(folder, loaded.model, Weights(folder, weights, DTYPES[dtype]), layers)
    loaded.model.eval()
    return loaded


def empty_model(folder: Path) -> Loaded:
    """Returns the model of a folder's config; its weights are random and take no memory.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: the config is missing, damaged, or not of this engine.
    """
    config: dict[str, Any] = read_config(folder).to_dict()
    model = build(str(folder / "config.json"), config)
    if (stored := stored_quantization(folder, config)) is not None:
        prepare_stored(model, stored, tensor_names(folder))
    return Loaded(model, config, folder)


def parameters_of(model: nn.Module) -> dict[str, mx.array]:
    """Returns a model's parameters by name."""
    return dict(tree_flatten(model.parameters()))


@dataclass(frozen=True)
class Weights:
    """The tensors of a folder's files, which are read when they are taken.

    Attributes:
        folder: the folder.
        tensors: by name.
        dtype: the type of all but codes.
    """

    folder: Path
    tensors: dict[str, mx.array]
    dtype: mx.Dtype

    def take(self, name: str, expected: mx.Dtype) -> mx.array:
        """Returns a tensor, read and checked, which is then no longer here.

        Raises:
            InputError: it has a NaN, or codes are in place of weights or weights in place of codes.
        """
        value = self.tensors.pop(name)
        codes = expected == mx.uint32
        if codes != (value.dtype == mx.uint32):
            kinds = "codes in U32" if codes else "weights"
            raise InputError(
                f"{self.folder}: {name}: expected {kinds}, got {value.dtype}",
                code="backends.weight_type",
            )
        if codes:
            mx.eval(value)
            return value
        value = value.astype(self.dtype)
        _refuse_nan(self.folder, name, value)
        return value


def _assign(
    folder: Path, model: nn.Module, weights: Weights, layers: Mapping[str, nn.QuantizedLinear]
) -> None:
    """Puts weights into a model, tensor by tensor.

    Args:
        folder: the model's folder.
        model: the model.
        weights: the tensors.
        layers: the layers that are quantised here, by name.

    Raises:
        InputError: weights are missing, of another shape or kind, or not finite.
    """
    quantized_parts = {f"{name}.{part}" for name in layers for part in PARTS}
    places = {
        name: value for name, value in parameters_of(model).items() if name not in quantized_parts
    }
    common = places.keys() & weights.tensors.keys()
    expected = {name: tuple(places[name].shape) for name in common}
    expected |= {f"{name}.weight": linear_shape(layer) for name, layer in layers.items()}
    shapes = [(name, weights.tensors[name].shape, expected[name]) for name in common]
    differ = [pair for pair in shapes if tuple(pair[1]) != pair[2]]
    refuse_holes(folder, places.keys() - common, differ)
    tied = {TIED_HEAD} if TIED_HEAD not in places else set[str]()
    warn_of_unused(folder, weights.tensors.keys() - common - tied)
    ready: list[tuple[str, mx.array]] = []
    for name, tensor in places.items():
        layer = layers.get(name.removesuffix(".weight"))
        if layer is None:
            ready.append((name, weights.take(name, tensor.dtype)))
            continue
        parts = quantized(layer, weights.take(name, weights.dtype))
        stem = name.removesuffix("weight")
        ready += [(f"{stem}{part}", value) for part, value in parts.items()]
    model.load_weights(ready, strict=True)


def _refuse_nan(folder: Path, name: str, value: mx.array) -> None:
    """Reads a weight and checks it."""
    finite = mx.isfinite(value).all()
    mx.eval(value, finite)
    if not finite.item():
        flat = mx.isfinite(value.flatten())
        index = int(mx.argmin(flat).item())
        odd = value.flatten()[index].item()
        raise InputError(
            f"{folder}: {name}: value {index} is {odd}: expected finite weights",
            code="backends.not_finite",
        )
