"""Loads a model folder: safetensors only, with a check of every weight."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.model_folder import read_config, refuse_codes, refuse_holes, warn_of_unused
from zoo.backends.rope import RopeSpec
from zoo.backends.spec import QuantizationSpec
from zoo.backends.torch.files.imports import import_models
from zoo.backends.torch.files.tied_head import repeats_head, without_head
from zoo.backends.torch.layers.rope import check_scaled, scale_rope
from zoo.backends.torch.numbers.dtypes import DTYPES, WIDENED, held_in
from zoo.backends.torch.numbers.finite import first_not_finite
from zoo.backends.torch.numbers.widened import computes, widen
from zoo.backends.torch.quantized.already import (
    BY_BITSANDBYTES,
    check_quantized,
    quantized_by,
)
from zoo.backends.torch.quantized.base import check_shapes, quantization_options, settle
from zoo.backends.torch.quantized.pieces import quantizing_in_pieces
from zoo.backends.torch.quantized.stored import stored_tensors
from zoo.backends.torch.quiet import quiet
from zoo.backends.torch.streaming.layers import stream_layers
from zoo.backends.torch.streaming.mapped import MappedFiles
from zoo.core.errors import GymWarning, InputError
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import warn_of_unused_weights
from zoo.models.refusals import refusals
from zoo.models.tied_head import HEAD

NOWHERE = "\0"
"""A folder name that no file system allows."""


def load_model(
    folder: Path,
    *,
    dtype: str,
    attention: str = "auto",
    quantization: QuantizationSpec | None = None,
    device: str = "cpu",
    streams: bool = False,
    rope: RopeSpec | None = None,
) -> nn.Module:
    """Returns the causal language model in `folder`, ready for inference.

    Args:
        folder: a Hugging Face model folder.
        dtype: one of `DTYPES`.
        attention: see `LoadSpec`.
        quantization: see `LoadSpec`; one tensor at a time is in memory as it is stored.
        device: the device of a quantised model; others are on the CPU.
        streams: the weights stay in the files; each layer's are read when it is computed.
        rope: see `LoadSpec`.

    Raises:
        NotAvailableError: there is no such folder, the quantisation's library is missing, or this
            system cannot stream.
        InputError: it has no config, an unknown architecture, or weights that do not fit it, is
            quantised already, or cannot be streamed or scaled.

    Warns:
        GymWarning: the files have tensors that are not part of the model, or the folder has a
            second set of weights; they are not used.
    """
    import_models()
    config = read_config(folder)
    if rope is not None:
        scale_rope(folder, config, rope)
    files = checkpoint_files(folder)
    warn_of_unused_weights(folder)
    already = quantized_by(config)
    if already is None:
        refuse_codes(folder, files)
    else:
        check_quantized(folder, already, quantization)
    options: dict[str, Any] = {"dtype": held_in(dtype, folder)}
    if attention != "auto":
        options["attn_implementation"] = attention
    products = torch.float32 if dtype == WIDENED else DTYPES[dtype]
    what = f"{folder}: this model cannot be loaded"
    mapped = MappedFiles(files) if streams else None
    if quantization is None:
        with refusals(what, folder), quiet():
            loaded = _from_pretrained(folder, config, files, options, mapped)
    else:
        options |= quantization_options(folder, config, quantization, products, device)
        with refusals(what, folder), quiet(), quantizing_in_pieces():
            loaded = _quantized(folder, config, files, options)
    model: nn.Module = loaded[0]
    if rope is not None:
        check_scaled(folder, model, rope)
    if mapped is not None:
        stream_layers(folder, model, mapped)
    check_weights(folder, model, loaded[1], mapped)
    if quantization is not None or already == BY_BITSANDBYTES:
        check_shapes(folder, model)
        settle(model, products)
    if dtype == WIDENED:
        _widen(folder, model)
    return model.eval()


def check_weights(
    folder: Path, model: nn.Module, report: dict[str, Any], mapped: MappedFiles | None = None
) -> None:
    """Checks the weights of a loaded model.

    Args:
        folder: its folder, for messages.
        model: the model.
        report: what transformers says of the loading.
        mapped: the files that weights stay in: their memory is released after the check.

    Raises:
        InputError: weights are missing, of another shape, or not finite.

    Warns:
        GymWarning: the files have tensors that are not part of the model.
    """
    refuse_holes(folder, report.get("missing_keys") or [], report.get("mismatched_keys") or [])
    warn_of_unused(folder, report.get("unexpected_keys") or [])
    for name, parameter in model.named_parameters():
        _refuse_nan(folder, name, parameter.detach())
        for part in mapped.ranges([parameter]) if mapped else ():
            part.release()


FROM_FILES: dict[str, Any] = {
    "local_files_only": True,
    "use_safetensors": True,
    "ignore_mismatched_sizes": True,
    "output_loading_info": True,
    # otherwise transformers loads an adapter in the folder automatically
    "adapter_kwargs": {"subfolder": NOWHERE},
}


def _from_pretrained(
    folder: Path,
    config: Any,  # noqa: ANN401
    files: list[Path],
    extra: dict[str, Any],
    mapped: MappedFiles | None,
) -> Any:  # noqa: ANN401
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM

    options: dict[str, Any] = {"config": config, **FROM_FILES, **extra}
    known = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    repeated = known and repeats_head(files, config)
    if not repeated and not (known and mapped):
        return AutoModelForCausalLM.from_pretrained(folder, **options)
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    if mapped is not None:
        kept = {n: t for n, t in mapped.tensors.items() if not (repeated and n == HEAD)}
        return kind.from_pretrained(None, state_dict=kept, **options)
    with without_head(files) as tensors:
        return kind.from_pretrained(None, state_dict=tensors, **options)


def _quantized(folder: Path, config: Any, files: list[Path], extra: dict[str, Any]) -> Any:  # noqa: ANN401
    """Loads a model whose weights are quantised one by one, as they are read."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    faults: list[str] = []
    tensors = stored_tensors(files, faults)
    if repeats_head(files, config):
        del tensors[HEAD]
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    options = {"config": config, **FROM_FILES, **extra}
    loaded = kind.from_pretrained(None, state_dict=tensors, **options)
    if faults:
        raise InputError(f"{folder}: {faults[0]}", code="backends.not_finite")
    return loaded


def _widen(folder: Path, model: nn.Module) -> None:
    widen(model)
    if not computes(model.eval()):
        nn.Module.float(model)  # that of transformers refuses a quantised model
        warnings.warn(
            f"{folder}: {type(model).__name__} multiplies weights outside of their layers: "
            "they are stored in float32, not in bf16",
            GymWarning,
            stacklevel=3,
        )


def _refuse_nan(folder: Path, name: str, tensor: Tensor) -> None:
    index = first_not_finite(tensor)
    if index is not None:
        value = tensor.flatten()[index].item()
        raise InputError(
            f"{folder}: {name}: value {index} is {value}: expected finite weights",
            code="backends.not_finite",
        )
