"""peft's settings of each kind of adapter, and the names that users know them by."""

from typing import TYPE_CHECKING, Any

from torch import nn

from zoo.backends.spec import LoraSpec, NewAdapter, OftSpec
from zoo.backends.torch.adapters.whole import find_whole, is_tied
from zoo.backends.torch.layers.linear import left_out
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from peft import PeftConfig

ALL = "all-linear"


def target_key(spec: object) -> str:
    """Returns the setting that names the layers of an adapter."""
    return "oft_target" if isinstance(spec, OftSpec) else "lora_target"


def reads_weights(spec: NewAdapter) -> bool:
    """Returns whether an adapter reads the weights of the base, not only their products."""
    return isinstance(spec, LoraSpec) and (spec.dora or spec.init != "default")


def peft_config(model: nn.Module, spec: NewAdapter) -> "PeftConfig":
    """Returns peft's settings of an adapter on a model."""
    from peft import LoraConfig, OFTConfig

    whole_modules = find_whole(model, spec.whole)
    tied = is_tied(model, whole_modules)
    everywhere = list(spec.targets) == [ALL]
    shared: dict[str, Any] = {
        "task_type": "CAUSAL_LM",
        "target_modules": ALL if everywhere else list(spec.targets),
        "exclude_modules": left_out(model) if everywhere else None,
        "modules_to_save": whole_modules or None,
    }
    if isinstance(spec, OftSpec):
        if tied:
            raise InputError(
                "additional_target: expected other modules with finetuning_type oft, got the "
                "embedding, which is the head as well",
                hint="finetuning_type lora trains both as one",
                code="torch.shared_with_head",
            )
        return OFTConfig(
            r=spec.rank, oft_block_size=spec.block_size, module_dropout=spec.dropout, **shared
        )
    return LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,  # type: ignore[arg-type]
        lora_dropout=spec.dropout,
        use_rslora=spec.rslora,
        use_dora=spec.dora,
        ensure_weight_tying=tied,
        **shared,
    )
