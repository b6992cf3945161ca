"""Quantises the linear layers of a base while it is loaded, with bitsandbytes.

4 bits are NF4 or FP4 in blocks of 64 weights (QLoRA, arXiv:2305.14314), their scales in 8 bits with
double quantisation; 8 bits are described in `int8`. The embedding and the head keep their values.
Products are in the type of the model: float32 or bf16.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.backends.spec import QuantizationSpec
from zoo.backends.torch.layers.linear import left_out
from zoo.backends.torch.quantized.int8 import Int8Linear
from zoo.backends.torch.quantized.library import require_library
from zoo.backends.torch.settings import refused_codes
from zoo.core.errors import InputError
from zoo.models.refusals import refusals

LEAST_SHARE = 0.5
"""The least share of the weights outside of embeddings that must be in layers to quantise."""


def quantization_options(
    folder: Path,
    config: Any,  # noqa: ANN401
    spec: QuantizationSpec,
    dtype: torch.dtype,
    device: str,
) -> dict[str, Any]:
    """Returns the options with which transformers quantises a model while it loads it.

    Args:
        folder: the model's folder, for messages.
        config: its config.
        spec: the quantisation.
        dtype: the type of its products.
        device: the device of its weights.

    Raises:
        NotAvailableError: bitsandbytes is not installed.
        InputError: the model has most of its weights outside of linear layers.
    """
    check_codes(spec)
    require_library()
    from transformers import BitsAndBytesConfig

    settings: Any = BitsAndBytesConfig
    quantized = settings(
        load_in_4bit=spec.bits == 4,
        load_in_8bit=spec.bits == 8,
        bnb_4bit_quant_type=spec.kind,
        bnb_4bit_use_double_quant=spec.double,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=kept_layers(folder, config),
    )
    return {"quantization_config": quantized, "device_map": {"": device}}


def check_codes(spec: QuantizationSpec) -> None:
    """Refuses codes that torch has not.

    Raises:
        InputError: they are MLX's, or of other bits.
    """
    for text, hint in refused_codes(spec):
        raise InputError(text, hint=hint, code="backends.setting_not_supported")


def kept_layers(folder: Path, config: Any) -> list[str]:  # noqa: ANN401
    """Returns the linear layers of a model that keep their values, as patterns of their names.

    They are the head, and layers whose weights the model reads without calling them.

    Raises:
        InputError: less than half of the weights outside of embeddings would be quantised.
    """
    import re

    from transformers import AutoModelForCausalLM
    from transformers.quantizers.base import get_keys_to_not_convert

    auto: Any = AutoModelForCausalLM
    with refusals(f"{folder}: this model cannot be built"), torch.device("meta"):
        model = auto.from_config(config)
        excluded = {*get_keys_to_not_convert(model), *(left_out(model) or ())}
    share = _share_of_linear(model, excluded)
    if share < LEAST_SHARE:
        raise InputError(
            f"quantization_bit: {type(model).__name__} has {1 - share:.0%} of its weights outside "
            f"of plain linear layers, as stacked experts: expected at most {1 - LEAST_SHARE:.0%}, "
            "as only linear layers are quantised",
            hint="train it without quantization_bit",
            code="torch.too_few_linear_weights",
        )
    return sorted(re.escape(name) for name in excluded)


def _share_of_linear(model: Any, excluded: set[str]) -> float:  # noqa: ANN401
    from transformers.pytorch_utils import Conv1D

    sizes: dict[str, int] = {
        name: module.weight.numel()
        for name, module in model.named_modules()
        if type(module) in (nn.Linear, Conv1D) and name not in excluded
    }
    ends = {id(model.get_input_embeddings().weight)}
    if (head := model.get_output_embeddings()) is not None:
        ends.add(id(head.weight))
    every: int = sum(p.numel() for p in model.parameters() if id(p) not in ends)
    return sum(sizes.values()) / max(1, every)


def settle(model: nn.Module, products: torch.dtype) -> None:
    """Prepares the quantised layers of a loaded model for training, in place.

    Files that are in 4 bits already name a type of their products, often float16: that of the
    model is taken.

    On processors with bf16 units, the forward pass of a `Linear4bit` in evaluation mode repacks its
    weights for a product without a gradient: after the first rollout or evaluation no gradient
    would pass through the layer. That is switched off. 8-bit layers become `Int8Linear`.
    """
    bnb = require_library()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, bnb.nn.Linear4bit):
                layer: Any = child
                layer.support_avx512bf16_for_cpu = False
                layer.compute_dtype, layer.compute_type_is_set = products, True
            elif isinstance(child, bnb.nn.Linear8bitLt):
                coded: Any = child
                settled = Int8Linear(coded.weight.data, coded.weight.SCB, coded.bias)
                setattr(parent, name, settled)
    named: Any = model
    named.is_loaded_in_8bit = False  # the layers are ours: peft must not look for its own


def check_shapes(folder: Path, model: nn.Module) -> None:
    """Checks that each 4-bit or 8-bit weight has the shape of its layer; transformers does not.

    Raises:
        InputError: one has another.
    """
    bnb = require_library()
    for name, layer in model.named_modules():
        if not isinstance(layer, bnb.nn.Linear4bit | bnb.nn.Linear8bitLt):
            continue
        plain: Any = layer
        state = getattr(plain.weight, "quant_state", None)
        got = tuple(plain.weight.shape if state is None else state.shape)
        expected = (plain.out_features, plain.in_features)
        if got != expected:
            raise InputError(
                f"{folder}: {name}.weight: shape mismatch: expected {expected}, got {got}",
                hint="config.json and the weights belong to different models",
                code="backends.weights_do_not_fit",
            )


def quantized_layers(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Yields the quantised layers by name."""
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear):  # peft's wrapper has the weight of its layer
            continue
        if isinstance(module, Int8Linear) or hasattr(module.weight, "quant_state"):
            yield name, module


def count_weights(parameter: torch.Tensor) -> int:
    """Returns the number of weights of a parameter, of packed codes that of what they stand for."""
    state: Any = getattr(parameter, "quant_state", None)
    return int(torch.Size(state.shape).numel()) if state is not None else parameter.numel()


def stored_bytes(model: nn.Module) -> int:
    """Returns the memory of a model's weights, of quantised ones with their scales."""
    total = 0
    for tensor in {id(t): t for t in (*model.parameters(), *model.buffers())}.values():
        total += tensor.numel() * tensor.element_size()
        state: Any = getattr(tensor, "quant_state", None)
        while state is not None:
            total += state.absmax.numel() * state.absmax.element_size()
            state = state.state2
    return total
