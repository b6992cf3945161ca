"""Loads a model folder: safetensors only, with a check of every weight."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.model_folder import read_config, refuse_codes, refuse_holes, warn_of_unused
from zoo.backends.torch.dtypes import WIDENED, held_in
from zoo.backends.torch.quiet import quiet
from zoo.backends.torch.tied_head import repeats_head, without_head
from zoo.backends.torch.widened import computes, widen
from zoo.core.errors import GymWarning, InputError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import warn_of_unused_weights
from zoo.models.refusals import refusals

FINITE_VALUES = 1 << 22
"""The number of weights per block in the search for NaN."""

NOWHERE = "\0"
"""A folder name that no file system allows."""


def load_model(folder: Path, *, dtype: str, attention: str = "auto") -> nn.Module:
    """Returns the causal language model in `folder`, on the CPU, ready for inference.

    Args:
        folder: a Hugging Face model folder.
        dtype: one of `DTYPES`.
        attention: see `LoadSpec`.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: it has no config, an unknown architecture, or weights that do not fit it.

    Warns:
        GymWarning: the files have tensors that are not part of the model, or the folder has a
            second set of weights; they are not used.
    """
    config = read_config(folder)
    files = checkpoint_files(folder)
    warn_of_unused_weights(folder)
    if getattr(config, "quantization_config", None) is None:
        refuse_codes(folder, files)
    options: dict[str, Any] = {"dtype": held_in(dtype, files)}
    if attention != "auto":
        options["attn_implementation"] = attention
    with refusals(f"{folder}: this model cannot be loaded", folder), quiet():
        loaded = _from_pretrained(folder, config, files, options)
    model: nn.Module = loaded[0]
    check_weights(folder, model, loaded[1])
    if dtype == WIDENED:
        _widen(folder, model)
    return model.eval()


def check_weights(folder: Path, model: nn.Module, report: dict[str, Any]) -> None:
    """Checks the weights of a loaded model.

    Args:
        folder: its folder, for messages.
        model: the model.
        report: what transformers says of the loading.

    Raises:
        InputError: weights are missing, of another shape, or not finite.

    Warns:
        GymWarning: the files have tensors that are not part of the model.
    """
    refuse_holes(folder, report.get("missing_keys") or [], report.get("mismatched_keys") or [])
    warn_of_unused(folder, report.get("unexpected_keys") or [])
    _refuse_nan(folder, model)


def _from_pretrained(folder: Path, config: Any, files: list[Path], extra: dict[str, Any]) -> Any:  # noqa: ANN401
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM

    options: dict[str, Any] = {
        "config": config,
        "local_files_only": True,
        "use_safetensors": True,
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
        # otherwise transformers loads an adapter in the folder automatically
        "adapter_kwargs": {"subfolder": NOWHERE},
        **extra,
    }
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or not repeats_head(files, config):
        return AutoModelForCausalLM.from_pretrained(folder, **options)
    with without_head(files) as tensors:
        kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        return kind.from_pretrained(None, state_dict=tensors, **options)


def _widen(folder: Path, model: nn.Module) -> None:
    widen(model)
    if not computes(model.eval()):
        model.float()
        warnings.warn(
            f"{folder}: {type(model).__name__} multiplies weights outside of their layers: "
            "they are stored in float32, not in bf16",
            GymWarning,
            stacklevel=3,
        )


def _refuse_nan(folder: Path, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        place = _first_not_finite(parameter.detach())
        if place is not None:
            value = parameter.detach().flatten()[place].item()
            raise InputError(f"{folder}: {name}: value {place} is {value}: expected finite weights")


def _first_not_finite(tensor: Tensor) -> int | None:
    """Returns the first index of a non-finite value, searching in blocks to save memory."""
    values = tensor.flatten()
    for start in range(0, len(values), FINITE_VALUES):
        finite = torch.isfinite(values[start : start + FINITE_VALUES])
        if not bool(finite.all()):
            return start + int((~finite).nonzero()[0])
    return None
