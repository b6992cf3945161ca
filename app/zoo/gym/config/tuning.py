"""What each kind of training reads of the settings of adapters, and which contradict each other."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

LORA = ("lora", "dora")
"""The values of `finetuning_type` that train low-rank factors."""

IN_PLACE = ("full",)
"""The values of `finetuning_type` that train weights of the base, without an adapter."""

READ_BY = {
    "lora_rank": LORA,
    "lora_alpha": LORA,
    "lora_dropout": LORA,
    "lora_target": LORA,
    "use_dora": LORA,
    "use_rslora": LORA,
}
"""The values of `finetuning_type` that read a setting."""


def faults_of_tuning(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns (key, message) for each setting that `finetuning_type` leaves without effect."""
    kind = config.finetuning_type
    faults = [
        (key, f"has no effect with finetuning_type {kind}: expected finetuning_type {_or(kinds)}")
        for key, kinds in READ_BY.items()
        if kind not in kinds and key in config.changed and getattr(config, key) is not False
    ]
    if kind in IN_PLACE and config.dtype.startswith("bf16"):
        text = f"has no effect with finetuning_type {kind}, which trains float32 weights"
        faults.append(("dtype", text))
    if kind == "dora" and config.use_dora is False:
        faults.append(("use_dora", "expected true with finetuning_type dora, got false"))
    targets = [part.strip() for part in config.lora_target.split(",")]
    if "all" in targets and len(targets) > 1:
        faults.append(("lora_target", f"expected all or names of layers, got {config.lora_target}"))
    return faults


def _or(names: tuple[str, ...]) -> str:
    """Returns `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
