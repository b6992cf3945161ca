"""The table of training methods: the values of `stage`, each with its method and settings.

A method is listed by its import path and imported on demand, so that settings do not import
training.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from zoo.gym.config.train import TrainConfig

DEFAULT = "sft"

METHODS = {
    "sft": "zoo.gym.train.methods.sft:Supervised",
    "dpo": "zoo.gym.train.methods.dpo:DirectPreference",
    "orpo": "zoo.gym.train.methods.orpo:OddsRatioPreference",
    "cpo": "zoo.gym.train.methods.cpo:ContrastivePreference",
    "simpo": "zoo.gym.train.methods.cpo:SimplePreference",
    "grpo": "zoo.gym.train.methods.grpo:Grpo",
    "gspo": "zoo.gym.train.methods.gspo:Gspo",
    "rloo": "zoo.gym.train.methods.rloo:Rloo",
    "ppo": "zoo.gym.train.methods.ppo:Ppo",
}
"""Stage -> "module:class" of its `zoo.gym.train.method.Method`."""


def load_method(stage: str) -> Any:  # noqa: ANN401 - its type belongs to the training
    """Returns the method class of a stage in the table."""
    module, _, name = METHODS[stage].partition(":")
    return getattr(import_module(module), name)


def stages_reading(stage: str) -> list[str]:
    """Returns the stages whose methods learn from the same kinds of rows as that of `stage`."""
    reads = load_method(stage).reads
    return [other for other in METHODS if load_method(other).reads == reads]


def config_class(stage: object) -> "type[TrainConfig]":
    """Returns the settings class of a stage; that of the default for an unknown stage."""
    known = stage if isinstance(stage, str) and stage in METHODS else DEFAULT
    model: type[TrainConfig] = load_method(known).config
    return model


def all_fields() -> "dict[str, FieldInfo]":
    """Returns the settings of all methods: the common ones first, then those of single methods."""
    found: dict[str, FieldInfo] = {}
    for stage in METHODS:
        for key, field in config_class(stage).model_fields.items():
            found.setdefault(key, field)
    return found


def stages_with(key: str) -> list[str]:
    """Returns the stages whose methods have the setting `key`."""
    return [stage for stage in METHODS if key in config_class(stage).model_fields]
