"""Bases in few bits: MLX's affine codes, in the files of mlx-lm or made while a model is loaded.

Each group of 64 weights of a row has a scale and an offset (32 weights where a row has no multiple
of 64): `weight = code * scale + offset`. Products are in the type of the activations. On loading
the linear layers are quantised, one at a time; embedding and head keep their values. A folder of
mlx-lm may also have these in codes, and other bits for each layer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from zoo.backends.spec import BITS, QuantizationSpec
from zoo.core.errors import InputError

GROUPS = (64, 32)
"""The weights of a group: the first that divides a row."""

STORED_GROUPS = (32, 64, 128)
PARTS = ("scales", "biases")
ORIGINAL = "use the original model, whose weights are not quantised"


def stored_quantization(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns how mlx-lm quantised the files of a folder, or None if they are plain.

    Raises:
        InputError: they are quantised by something else, or in another way than affine codes.
    """
    where = f"{folder / 'config.json'}: quantization"
    settings = config.get("quantization") or config.get("quantization_config")
    if not settings:
        return None
    if not isinstance(settings, dict):
        raise InputError(
            f"{where}: expected an object, got {settings!r:.80}",
            hint=ORIGINAL,
            code="backends.bad_config",
        )
    if method := settings.get("quant_method"):
        raise InputError(
            f"{folder}: bases that are quantised by {method} are not supported on MLX: expected "
            "plain weights, or those of mlx-lm",
            hint=f"{ORIGINAL}: quantization_bit=4 quantises it on loading",
            code="backends.codes_not_supported",
        )
    for layer, codes in {"": settings, **settings}.items():
        if isinstance(codes, dict):
            _check_settings(f"{where}.{layer}" if layer else where, codes)
    return settings


def _check_settings(where: str, settings: Mapping[str, Any]) -> None:
    allowed: dict[str, tuple[object, ...]] = {
        "bits": BITS,
        "group_size": STORED_GROUPS,
        "mode": ("affine",),
    }
    for key, values in allowed.items():
        got = settings.get(key, "affine" if key == "mode" else None)
        if type(got) is not type(values[0]) or got not in values:
            raise InputError(
                f"{where}: {key}: expected {', '.join(map(str, values))} on MLX, got {got!r}",
                hint=ORIGINAL,
                code="backends.codes_not_supported",
            )


def check_quantization(
    folder: Path, config: Mapping[str, Any], spec: QuantizationSpec | None, *, full: bool
) -> None:
    """Refuses a quantisation that this engine cannot do, before a weight is read.

    Args:
        folder: the model's folder.
        config: its config.
        spec: the quantisation that is asked for.
        full: whether weights of the base are trained.

    Raises:
        InputError: the files are quantised already.
    """
    stored = stored_quantization(folder, config)
    if stored is not None and full:
        raise InputError(
            f"{folder}: expected a base that is not quantised for finetuning_type full, got one "
            f"in {stored['bits']} bits",
            hint="finetuning_type=lora trains an adapter on it",
            code="backends.already_quantised",
        )
    if spec is None:
        return
    if stored is not None:
        raise InputError(
            f"{folder}: quantization_bit: expected a base that is not quantised, got one that "
            "mlx-lm has quantised",
            hint=f"leave quantization_bit out, or {ORIGINAL}",
            code="backends.already_quantised",
        )


def prepare_stored(model: nn.Module, stored: Mapping[str, Any], names: set[str]) -> None:
    """Gives quantised layers to a model without weights, for those in the files.

    Args:
        model: the model.
        stored: how its files are quantised.
        names: the tensors in its files.
    """

    def chosen(name: str, module: nn.Module) -> bool | dict[str, Any]:
        if not hasattr(module, "to_quantized") or f"{name}.scales" not in names:
            return False
        layer_codes = stored.get(name)
        settings = layer_codes if isinstance(layer_codes, dict) else stored
        return {key: settings[key] for key in ("group_size", "bits")}

    nn.quantize(model, class_predicate=chosen)


def prepare(model: nn.Module, spec: QuantizationSpec, head: str) -> dict[str, Any]:
    """Gives quantised layers to a model without weights; returns them by name.

    Args:
        model: the model.
        spec: the bits.
        head: the name of the output layer, which keeps its values.

    Raises:
        InputError: the rows of a layer are no multiple of a group.
    """

    def chosen(name: str, module: nn.Module) -> bool | dict[str, Any]:
        if not isinstance(module, nn.Linear) or name == head:
            return False
        inputs = int(module.weight.shape[1])
        size = next((size for size in GROUPS if inputs % size == 0), None)
        if size is None:
            raise InputError(
                f"quantization_bit: {name}: expected a multiple of {GROUPS[-1]} inputs on MLX, "
                f"got {inputs}",
                code="mlx.not_whole_groups",
            )
        return {"group_size": size, "bits": spec.bits}

    nn.quantize(model, class_predicate=chosen)
    return {n: m for n, m in model.named_modules() if isinstance(m, nn.QuantizedLinear)}


def quantized(layer: Any, weight: mx.array) -> dict[str, mx.array]:  # noqa: ANN401
    """Returns the evaluated parameters of a quantised layer for a weight."""
    parts = mx.quantize(weight, group_size=layer.group_size, bits=layer.bits)
    mx.eval(parts)
    return dict(zip(("weight", *PARTS), parts, strict=True))


def float_weight(layer: Any) -> mx.array:  # noqa: ANN401
    """Returns the weight of a linear layer in float32, of codes what they stand for."""
    weight: mx.array = layer.weight
    if isinstance(layer, nn.QuantizedLinear):
        weight = mx.dequantize(
            weight, layer.scales, layer.biases, group_size=layer.group_size, bits=layer.bits
        )
    return weight.astype(mx.float32)


def linear_shape(layer: Any) -> tuple[int, int]:  # noqa: ANN401
    """Returns the outputs and inputs of a linear layer, `(O, I)`."""
    outputs, inputs = layer.weight.shape
    if isinstance(layer, nn.QuantizedLinear):
        inputs = inputs * 32 // layer.bits
    return int(outputs), int(inputs)
