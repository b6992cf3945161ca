"""Loads a model folder: safetensors only, with a check of every weight."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.dtypes import WIDENED, held_in
from zoo.backends.torch.quiet import quiet
from zoo.backends.torch.tied_head import repeats_head, without_head
from zoo.backends.torch.widened import computes, widen
from zoo.core import read_header
from zoo.core.errors import GymWarning, InputError, NotAvailableError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import warn_of_unused_weights
from zoo.models.folder import is_reward_model, read_object
from zoo.models.refusals import refusals

FINITE_VALUES = 1 << 22
"""The number of weights per block in the search for NaN."""

PLAIN_DTYPES = ("F64", "F32", "F16", "BF16")
"""Types whose values are the weights themselves."""

CODE_DTYPES = ("I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4")
"""Types of quantised codes, which need a scale to become weights."""

NOWHERE = "\0"
"""A folder name that no file system allows."""

CONSTANTS = (".attn.bias", ".attention.bias", ".masked_bias", ".causal_mask", ".inv_freq")
"""Suffixes of constants in old checkpoints: masks and rotary frequencies."""


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
        _refuse_codes(folder, files)
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
    _refuse_holes(folder, report)
    _warn_of_unused(folder, report)
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


def read_config(folder: Path) -> Any:  # noqa: ANN401
    """Returns the folder's transformers config.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: the config is missing or damaged, or its architecture is unknown or not a
            causal language model; a reward model is none.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    path, config = folder / "config.json", read_config_of(folder)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        kind = config.model_type
        raise InputError(f"{path}: model_type: expected a causal language model, got {kind!r}")
    if is_reward_model(folder):
        raise InputError(
            f"{path}: architectures: expected a causal language model, got "
            f"{config.architectures[0]}",
            hint=f"a reward model scores answers: reward={folder}",
        )
    with refusals(f"{path}: this config cannot be used"):
        layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    if isinstance(layers, int) and layers < 1:
        raise InputError(f"{path}: number of layers: expected at least 1, got {layers}")
    return config


def read_config_of(folder: Path) -> Any:  # noqa: ANN401
    """Returns the folder's transformers config, of whatever kind of model.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: the config is missing or damaged, or its architecture is unknown.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    path = folder / "config.json"
    if not folder.is_dir():
        raise NotAvailableError(f"{folder}: no such model folder")
    if not path.is_file():
        raise InputError(f"{folder}: no config.json there: expected a Hugging Face model folder")
    kind = read_object(path).get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise InputError(
            f"{path}: model_type: unknown architecture {kind!r}",
            hint="it needs a newer transformers, or custom code, which is never run",
        )
    with refusals(f"{path}: this config cannot be used", folder):
        return AutoConfig.from_pretrained(folder, local_files_only=True)


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


def tensor_names(folder: Path) -> set[str]:
    """Returns the names of the tensors in a model folder's files."""
    return {name for file in checkpoint_files(folder) for name in read_header(file).tensors}


def _refuse_codes(folder: Path, files: list[Path]) -> None:
    """Refuses quantised codes without a scale: read as weights, they give a broken model.

    Integers in place of weights are codes; elsewhere they are masks and indices.
    """
    for file in files:
        for name, info in read_header(file).tensors.items():
            odd = name.endswith(".weight") and info.dtype not in PLAIN_DTYPES
            if odd or info.dtype in CODE_DTYPES:
                raise InputError(
                    f"{folder}: {name}: expected weights in {', '.join(PLAIN_DTYPES)}, "
                    f"got {info.dtype}",
                    hint="the checkpoint is quantised, but its config does not say how: use the "
                    "original model",
                )


def _warn_of_unused(folder: Path, report: dict[str, Any]) -> None:
    """Warns of unused tensors: a layer may be misnamed, or missing in the config."""
    unexpected = report.get("unexpected_keys") or []
    unused = sorted(name for name in unexpected if not name.endswith(CONSTANTS))
    if unused:
        warnings.warn(
            f"{folder}: {_tensors_are(len(unused))} not part of this model and not used, "
            f"the first is {unused[0]!r}",
            GymWarning,
            stacklevel=3,
        )


def _refuse_holes(folder: Path, report: dict[str, Any]) -> None:
    """Refuses a model with missing weights: they would be random, without any error."""
    for entry in sorted(report.get("mismatched_keys") or []):
        name, got, expected = entry
        raise InputError(
            f"{folder}: {name}: shape mismatch: expected {tuple(expected)}, got {tuple(got)}",
            hint="config.json and the weights belong to different models",
        )
    missing = sorted(report.get("missing_keys") or [])
    if missing:
        raise InputError(
            f"{folder}: {_tensors_are(len(missing))} missing, the first is {missing[0]!r}",
            hint="config.json and the weights belong to different models",
        )


def _tensors_are(count: int) -> str:
    return "1 tensor is" if count == 1 else f"{count} tensors are"


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
