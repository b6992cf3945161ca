"""The published setting `distributed`, which says how processes divide a model.

`{backend: nccl, strategy: fsdp, sharding_strategy: full_shard, mixed_precision: bf16}` is
`sharding: full` and `dtype: bf16`; `num_processes` is a setting of its own.
"""

from collections.abc import Mapping
from typing import cast

from zoo.gym.config.foreign import DIVIDED
from zoo.gym.config.report import shown
from zoo.gym.errors import InputError

KEY = "distributed"

BACKENDS = ("nccl", "gloo")
WHY_NO_BACKEND = "the device determines it: nccl between GPUs, else gloo"

STRATEGIES = {"ddp": "none", "fsdp": "full"}
SHARDINGS = {"full_shard": "full", "no_shard": "none"}
DTYPES = {"bf16": "bf16", "no": "f32", "fp32": "f32"}
PARTS = ("backend", "strategy", "sharding_strategy", "mixed_precision")


def meaning(value: object) -> dict[str, object]:
    """Returns the settings that a value of `distributed` stands for.

    Raises:
        InputError: it has other parts or values, or parts that contradict each other.

    >>> meaning({"strategy": "fsdp", "sharding_strategy": "full_shard", "mixed_precision": "bf16"})
    {'sharding': 'full', 'dtype': 'bf16'}
    """
    parts = _parts(value)
    settings: dict[str, object] = {}
    if "backend" in parts:
        _one_of("backend", parts["backend"], dict.fromkeys(BACKENDS))
    if parts.get("strategy") == "deepspeed":
        raise InputError(
            f"strategy: DeepSpeed is not supported: {DIVIDED}", code="config.not_supported"
        )
    if "strategy" in parts:
        settings["sharding"] = _one_of("strategy", parts["strategy"], STRATEGIES)
    if "sharding_strategy" in parts:
        if settings.get("sharding") != "full":
            raise InputError(
                "sharding_strategy: has no effect without strategy fsdp", code="config.no_effect"
            )
        settings["sharding"] = _one_of("sharding_strategy", parts["sharding_strategy"], SHARDINGS)
    if "mixed_precision" in parts:
        precision = parts["mixed_precision"]
        precision = "no" if precision is False else precision  # as YAML reads it
        settings["dtype"] = _one_of("mixed_precision", precision, DTYPES)
    return settings


def _parts(value: object) -> Mapping[object, object]:
    parts = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}
    other = [name for name in parts if name not in PARTS]
    if not parts or other:
        got = shown(other[0] if other else value)
        raise InputError(
            f"expected {', '.join(PARTS[:-1])} and {PARTS[-1]}, got {got}", code="config.bad_value"
        )
    return parts


def _one_of(part: str, value: object, values: Mapping[str, object]) -> object:
    if not isinstance(value, str) or value not in values:
        raise InputError(
            f"{part}: expected {' or '.join(values)}, got {shown(value)}", code="config.bad_value"
        )
    return values[value]
