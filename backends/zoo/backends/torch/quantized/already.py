"""Bases whose files contain quantised weights, as their config says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.backends.model_folder import read_config
from zoo.backends.spec import LoadSpec, LoraSpec, QuantizationSpec
from zoo.backends.torch.quantized.library import require_library
from zoo.core.errors import InputError
from zoo.models.adapters import CONFIG_FILE, read_adapter_config

BY_BITSANDBYTES = "bitsandbytes"

BY_MLX = "mlx-lm"
"""It writes no method, only its settings."""

WIDENED_ON_LOADING = ("fp8", "mxfp4")
"""Methods whose weights transformers turns into plain ones, at least on a CPU."""


def quantized_by(config: Any) -> str | None:  # noqa: ANN401
    """Returns the method by which a model's files are quantised, or None if they are not."""
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return None
    if isinstance(settings, dict) and "quant_method" not in settings and "group_size" in settings:
        return BY_MLX
    method = settings.get("quant_method") if isinstance(settings, dict) else settings.quant_method
    return str(getattr(method, "value", method)).lower()


def stored_spec(config: Any) -> QuantizationSpec | None:  # noqa: ANN401
    """Returns the codes of bitsandbytes in a model's files, None for others and plain weights."""
    if quantized_by(config) != BY_BITSANDBYTES:
        return None
    stated = config.quantization_config
    settings: Mapping[str, Any] = stated if isinstance(stated, dict) else stated.to_dict()
    if not settings.get("load_in_4bit"):
        return QuantizationSpec(8, method="bnb")
    kind = settings.get("bnb_4bit_quant_type", "fp4")
    double = bool(settings.get("bnb_4bit_use_double_quant"))
    return QuantizationSpec(4, kind, double=double, method="bnb")


def _reads_weights(spec: LoadSpec) -> bool:
    """Returns whether an adapter reads the weights of the base: a new one, or one in a folder."""
    if isinstance(spec.train, LoraSpec):
        return spec.train.dora or spec.train.init != "default"
    file = None if spec.adapter is None else spec.adapter / CONFIG_FILE
    if file is None or not file.is_file():
        return False
    return bool(read_adapter_config(file).get("use_dora"))


def check_unchanged(folder: Path, spec: LoadSpec) -> None:
    """Checks that codes in a base's files can stay as they are for what is wanted of it.

    Raises:
        InputError: weights in codes are to be trained in place, to become a reward model, to
            stay in their files or to be divided; or an adapter reads them, in 8 bits.
    """
    config = read_config(folder)
    if quantized_by(config) != BY_BITSANDBYTES:
        return
    stored = stored_spec(config)
    if stored is not None and stored.bits == 8 and _reads_weights(spec):
        raise InputError(
            f"{folder}: DoRA and PiSSA read weights: expected 4, 16 or 32 bits, got files in 8",
            hint="use the original model with quantization_bit=4, or plain LoRA",
            code="torch.codes_not_readable",
        )
    for value, what in (
        (spec.in_place, "trained in place"),
        (spec.reward_model, "turned into a reward model"),
        (spec.stream_layers, "left in its files (stream_layers)"),
        (spec.sharded, "divided among processes (sharding full)"),
    ):
        if value:
            raise InputError(
                f"{folder}: a base that bitsandbytes has quantised cannot be {what}: expected "
                "plain weights",
                hint="use the original model, or train an adapter: finetuning_type=lora",
                code="backends.already_quantised",
            )


def check_quantized(folder: Path, method: str, spec: QuantizationSpec | None) -> None:
    """Checks that a base with quantised weights can be used as it is.

    Args:
        folder: its folder, for messages.
        method: how its files are quantised.
        spec: a quantisation that is asked for.

    Raises:
        InputError: another quantisation is asked for, or the method is not supported.
        NotAvailableError: bitsandbytes is needed and not installed.
    """
    original = "use the original model, whose weights are not quantised"
    if method not in (BY_BITSANDBYTES, *WIDENED_ON_LOADING):
        raise InputError(
            f"{folder}: bases that are quantised by {method} are not supported: expected plain "
            "weights, or bitsandbytes",
            hint=f"{original}: quantization_bit=4 quantises it on loading",
            code="backends.codes_not_supported",
        )
    if spec is not None:
        raise InputError(
            f"{folder}: quantization_bit: expected a base that is not quantised, got one that "
            f"{method} has quantised",
            hint=f"leave quantization_bit out, or {original}",
            code="backends.already_quantised",
        )
    if method == BY_BITSANDBYTES:
        require_library()
