"""The optimizer, the names that other trainers give it, and its own settings."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from zoo.backends.optimizer_spec import APOLLO, Optimizer
from zoo.gym.config.settings import Settings
from zoo.gym.config.values import Number

OTHER_NAMES = {
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_bnb_8bit": "adamw_8bit",
    "paged_adamw": "paged_adamw_32bit",
    "lion_32bit": "lion",
    "galore_adamw": "galore",
    "apollo_adamw": "apollo",
}
"""Names in transformers and LLaMA-Factory of the same optimizers."""


READ_BY_OPTIMIZERS = {
    "galore_target": ("galore",),
    "galore_rank": ("galore",),
    "galore_update_interval": ("galore",),
    "galore_scale": ("galore",),
    "apollo_target": APOLLO,
    "apollo_rank": ("apollo",),
    "apollo_update_interval": APOLLO,
    "apollo_scale": APOLLO,
    "apollo_proj": APOLLO,
    "apollo_scale_type": ("apollo",),
    "badam_mode": ("badam",),
    "badam_switch_mode": ("badam",),
    "badam_switch_interval": ("badam",),
    "badam_start_block": ("badam",),
}
"""The values of `optim` that read a setting."""

ONLY_IN_PLACE = ("galore", *APOLLO, "badam")
"""The optimizers that are for weights of the base: an adapter is small already."""


def optimizer_name(value: object) -> object:
    """Returns our name of an optimizer that is given by another trainer's."""
    return OTHER_NAMES.get(value, value) if isinstance(value, str) else value


class OptimizerKeys(Settings, frozen=True):
    """The optimizer and its own settings."""

    optim: Annotated[Optimizer, BeforeValidator(optimizer_name)] = Field(
        default="adamw",
        description="the optimizer; muon, adam_mini and lion keep half as much as adamw, adafactor"
        " little, sgd nothing; for weights in place: galore and apollo keep averages of low rank,"
        " apollo_mini of rank 1, badam those of one layer at a time;"
        " on CUDA adamw_8bit and the paged ones through bitsandbytes",
    )
    loraplus_lr_ratio: Number | None = Field(
        default=None,
        gt=1,
        le=1e6,
        description="how many times the learning rate of the adapter's second factors, lora_B, is"
        " that of the first (LoRA+); none: the same",
    )
