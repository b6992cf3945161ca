"""From a model folder to a model: safetensors only, every weight checked."""

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
from zoo.models.folder import read_object
from zoo.models.refusals import refusals

FINITE_VALUES = 1 << 22
"""Weights that are looked at together in search of NaN."""

PLAIN_DTYPES = ("F64", "F32", "F16", "BF16")
"""Types whose numbers are the weights."""

CODE_DTYPES = ("I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4")
"""Types that only codes have, which need a scale to become weights."""

NOWHERE = "\0"
"""A folder that no file system can hold."""

CONSTANTS = (".attn.bias", ".attention.bias", ".masked_bias", ".causal_mask", ".inv_freq")
"""Endings of what old checkpoints store beside the weights: masks and angles."""


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
        GymWarning: tensors of the files that the model has no place for, or a second set of
            weights in the folder; they stay unused.
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
    _refuse_holes(folder, loaded[1])
    _tell_unused(folder, loaded[1])
    _refuse_nan(folder, model)
    if dtype == WIDENED:
        _widen(folder, model)
    return model.eval()


def _from_pretrained(folder: Path, config: Any, files: list[Path], extra: dict[str, Any]) -> Any:  # noqa: ANN401
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM

    options: dict[str, Any] = {
        "config": config,
        "local_files_only": True,
        "use_safetensors": True,
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
        # transformers would put an adapter that lies in the folder on the model, unasked
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
        InputError: the config is missing, broken, or of an architecture that is unknown or is no
            causal language model.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    path = folder / "config.json"
    if not folder.is_dir():
        raise NotAvailableError(f"{folder}: no such model folder")
    if not path.is_file():
        raise InputError(f"{folder}: no config.json there: expected a Hugging Face model folder")
    kind = read_object(path).get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise InputError(
            f"{path}: model_type: unknown architecture {kind!r}",
            hint="it needs a newer transformers, or code of its own, which is never run",
        )
    with refusals(f"{path}: this config cannot be used", folder):
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise InputError(f"{path}: model_type: expected a causal language model, got {kind!r}")
    with refusals(f"{path}: this config cannot be used"):
        layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    if isinstance(layers, int) and layers < 1:
        raise InputError(f"{path}: number of layers: expected at least 1, got {layers}")
    return config


def _widen(folder: Path, model: nn.Module) -> None:
    widen(model)
    if not computes(model.eval()):
        model.float()
        warnings.warn(
            f"{folder}: {type(model).__name__} multiplies weights outside of their layers: "
            "they are held in float32, not in bf16",
            GymWarning,
            stacklevel=3,
        )


def tensor_names(folder: Path) -> set[str]:
    """Returns the names of the tensors in a model folder's files."""
    return {name for file in checkpoint_files(folder) for name in read_header(file).tensors}


def _refuse_codes(folder: Path, files: list[Path]) -> None:
    """A code taken for a weight gives a model that speaks nonsense and trains all the same.

    Integers are codes where weights are expected; elsewhere they are masks and places.
    """
    for file in files:
        for name, info in read_header(file).tensors.items():
            odd = name.endswith(".weight") and info.dtype not in PLAIN_DTYPES
            if odd or info.dtype in CODE_DTYPES:
                raise InputError(
                    f"{folder}: {name}: expected weights in {', '.join(PLAIN_DTYPES)}, "
                    f"got {info.dtype}",
                    hint="a quantised checkpoint whose config does not say how: use the model "
                    "that it was made from",
                )


def _tell_unused(folder: Path, report: dict[str, Any]) -> None:
    """A layer left out by its name or by a config that counts fewer would be missed in silence."""
    unexpected = report.get("unexpected_keys") or []
    unused = sorted(name for name in unexpected if not name.endswith(CONSTANTS))
    if unused:
        warnings.warn(
            f"{folder}: {len(unused)} tensors have no place in this model and stay unused, "
            f"the first is {unused[0]!r}",
            GymWarning,
            stacklevel=3,
        )


def _refuse_holes(folder: Path, report: dict[str, Any]) -> None:
    """A weight that is not in the files would be random: nobody would notice."""
    for entry in sorted(report.get("mismatched_keys") or []):
        name, got, expected = entry
        raise InputError(
            f"{folder}: {name}: shape mismatch: expected {tuple(expected)}, got {tuple(got)}",
            hint="config.json and the weights belong to different models",
        )
    missing = sorted(report.get("missing_keys") or [])
    if missing:
        raise InputError(
            f"{folder}: {len(missing)} tensors are missing, the first is {missing[0]!r}",
            hint="config.json and the weights belong to different models",
        )


def _refuse_nan(folder: Path, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        place = _first_not_finite(parameter.detach())
        if place is not None:
            value = parameter.detach().flatten()[place].item()
            raise InputError(f"{folder}: {name}: value {place} is {value}: expected finite weights")


def _first_not_finite(tensor: Tensor) -> int | None:
    """Looks at a part at a time: the answers for a whole embedding are as large as it."""
    values = tensor.flatten()
    for start in range(0, len(values), FINITE_VALUES):
        finite = torch.isfinite(values[start : start + FINITE_VALUES])
        if not bool(finite.all()):
            return start + int((~finite).nonzero()[0])
    return None
