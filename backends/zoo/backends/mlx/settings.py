"""The settings that the MLX engine follows; every other one is refused by name.

Nothing of MLX is imported, so that settings are checked before a run exists, on any machine.
"""

from dataclasses import fields

from zoo.backends.optimizer_spec import OptimizerSpec
from zoo.backends.spec import FreezeSpec, LoadSpec, LoraSpec, OftSpec
from zoo.core.errors import InputError

FOLLOWED: dict[type, frozenset[str]] = {
    LoadSpec: frozenset(
        [
            "adapter",
            "dtype",
            "gradient_checkpointing",
            "optimizer",
            "quantization",
            "seed",
            "train",
            "value_head",
        ]
    ),
    LoraSpec: frozenset(["rank", "alpha", "dora", "dropout", "targets", "rslora"]),
    OptimizerSpec: frozenset(["weight_decay", "groups"]),
}
"""The settings that this engine follows; any other one must have its default."""

KEYS = {
    "attention": "flash_attn",
    "fixed_a": "lora_fixed_a",
    "liger": "enable_liger_kernel",
    "name": "optim",
    "offload_activations": "activation_offloading",
    "reward_model": "stage",
    "rope": "rope_scaling",
    "router_loss": "moe_aux_loss_coef",
    "sharded": "sharding",
    "whole": "additional_target",
}
"""The names that users know settings by, where they differ."""

VALUES = {
    "eager": "disabled",
    "loftq_init": "true",
    "packing": "true",
    "pissa_init": "true",
    "reward_model": "rm",
    "rope": "a kind of scaling",
}
"""What users give where the engine gets something else."""

DTYPES = ("auto", "f32", "bf16")

OTHER_ENGINE = "use another engine: backend=mps or backend=cpu"


def refused_settings(spec: LoadSpec) -> list[str]:
    """Returns a sentence for each setting that this engine does not follow."""
    refusals = _refused_training(spec)
    if spec.dtype not in DTYPES and not spec.full:
        refusals.append(f"dtype: expected auto, f32 or bf16 on MLX, got {spec.dtype!r}")
    if spec.quantization is not None and spec.quantization.method == "bnb":
        refusals.append(
            "quantization_method: expected mlx on MLX, got bnb: NF4, FP4 and int8 of bitsandbytes "
            "(quantization_type, double_quantization) need torch"
        )
    parts: list[LoadSpec | LoraSpec | OptimizerSpec] = [spec, spec.optimizer]
    if isinstance(spec.train, LoraSpec):
        parts.append(spec.train)
    return refusals + [sentence for part in parts for sentence in _not_followed(part)]


def refuse_settings(spec: LoadSpec) -> None:
    """Refuses every setting that this engine does not follow, all in one message.

    Raises:
        InputError: there is one.
    """
    if refusals := refused_settings(spec):
        raise InputError(
            "\n".join(refusals), hint=OTHER_ENGINE, code="backends.setting_not_supported"
        )


def _refused_training(spec: LoadSpec) -> list[str]:
    kinds: dict[type, str] = {FreezeSpec: "freeze", OftSpec: "oft"}
    if (kind := kinds.get(type(spec.train))) is not None:
        return [f"finetuning_type: expected lora, dora or full on MLX, got {kind!r}"]
    if spec.train is not None and spec.adapter is not None:
        return [
            "adapter_name_or_path: expected none for training on MLX, which cannot train an "
            f"adapter further, got {spec.adapter}"
        ]
    return []


def _not_followed(part: LoadSpec | LoraSpec | OptimizerSpec) -> list[str]:
    """Returns a sentence for each setting of a part with another value than its default."""
    refusals: list[str] = []
    for field in fields(part):
        value = getattr(part, field.name)
        is_given = value not in {field.default, "preferred"}  # packing, if the engine can
        if not is_given or field.name in FOLLOWED[type(part)]:
            continue
        name = f"{value}_init" if field.name == "init" else field.name
        name, got = KEYS.get(name, name), VALUES.get(name, VALUES.get(str(value), str(value)))
        got = ",".join(value) if isinstance(value, tuple) else got
        refusals.append(f"{name}: not available on MLX: got {got}")
    return refusals
