"""The optimizer, the names that other trainers give it, and its own settings."""

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from zoo.gym.config.settings import Settings
from zoo.gym.config.values import Number

Optimizer = Literal["adamw", "muon", "adam_mini", "lion", "adafactor", "sgd"]
"""The names of `zoo.backends.spec.OPTIMIZERS`."""

OPTIMIZERS: tuple[str, ...] = get_args(Optimizer)

OTHER_NAMES = {
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "lion_32bit": "lion",
}
"""Names in transformers and LLaMA-Factory of the same optimizers."""


def optimizer_name(value: object) -> object:
    """Returns our name of an optimizer that is given by another trainer's."""
    return OTHER_NAMES.get(value, value) if isinstance(value, str) else value


class OptimizerKeys(Settings, frozen=True):
    """The optimizer and its own settings."""

    optim: Annotated[Optimizer, BeforeValidator(optimizer_name)] = Field(
        default="adamw",
        description="the optimizer; muon, adam_mini and lion keep half as much as adamw, adafactor"
        " little, sgd nothing",
    )
    loraplus_lr_ratio: Number | None = Field(
        default=None,
        gt=1,
        le=1e6,
        description="how many times the learning rate of the adapter's second factors, lora_B, is"
        " that of the first (LoRA+); none: the same",
    )
