"""Loads a model folder: safetensors only, with a check of every weight."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from zoo.backends.mlx.families import build
from zoo.backends.model_folder import read_config, refuse_codes, refuse_holes, warn_of_unused
from zoo.core import read_header
from zoo.core.errors import InputError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import warn_of_unused_weights

TIED_HEAD = "lm_head.weight"
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


def load_model(folder: Path, *, dtype: str) -> Loaded:
    """Returns the causal language model in `folder`.

    Args:
        folder: a Hugging Face model folder.
        dtype: one of `DTYPES`, the type of the weights in memory.

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
    refuse_codes(folder, files)
    weights: dict[str, mx.array] = {}
    for file in files:
        read_header(file)
        weights |= mx.load(str(file))
    _assign(folder, loaded.model, weights, DTYPES[dtype])
    loaded.model.eval()
    return loaded


def empty_model(folder: Path) -> Loaded:
    """Returns the model of a folder's config; its weights are random and take no memory.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: the config is missing, damaged, or not of this engine.
    """
    config: dict[str, Any] = read_config(folder).to_dict()
    return Loaded(build(str(folder / "config.json"), config), config, folder)


def parameters_of(model: nn.Module) -> dict[str, mx.array]:
    """Returns a model's parameters by name."""
    return dict(tree_flatten(model.parameters()))


def _assign(folder: Path, model: nn.Module, weights: dict[str, mx.array], dtype: mx.Dtype) -> None:
    """Puts weights into a model, tensor by tensor.

    Raises:
        InputError: weights are missing, of another shape, or not finite.
    """
    places = parameters_of(model)
    common = places.keys() & weights.keys()
    shapes = [(name, weights[name].shape, places[name].shape) for name in common]
    refuse_holes(folder, places.keys() - common, [one for one in shapes if one[1] != one[2]])
    tied = {TIED_HEAD} if TIED_HEAD not in places else set[str]()
    warn_of_unused(folder, weights.keys() - common - tied)
    ready: list[tuple[str, mx.array]] = []
    for name in places:
        value = weights.pop(name).astype(dtype)
        _refuse_nan(folder, name, value)
        ready.append((name, value))
    model.load_weights(ready, strict=True)


def _refuse_nan(folder: Path, name: str, value: mx.array) -> None:
    """Reads a weight and checks it."""
    finite = mx.isfinite(value).all()
    mx.eval(value, finite)
    if not finite.item():
        flat = mx.isfinite(value.flatten())
        place = int(mx.argmin(flat).item())
        odd = value.flatten()[place].item()
        raise InputError(f"{folder}: {name}: value {place} is {odd}: expected finite weights")
