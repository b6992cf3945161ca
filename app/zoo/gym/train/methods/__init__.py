"""The training methods: a file for each, and the table that names them."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.train.method import Method

METHODS = {
    "sft": "zoo.gym.train.methods.sft:Supervised",
}
"""The stage that a config names -> the method, imported on demand."""


def load_method(stage: str) -> "type[Method]":
    """Returns the method of a stage of the table."""
    module, _, attribute = METHODS[stage].partition(":")
    method: type[Method] = getattr(import_module(module), attribute)
    return method
