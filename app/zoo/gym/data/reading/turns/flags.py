"""Reads the flags that exclude turns of a chat from learning, in any common spelling."""

from collections.abc import Mapping

from zoo.gym.errors import InputError

WEIGHT_KEYS = ("weight", "loss_weight")
"""Keys with a weight, 0 or 1."""

FLAG_KEYS = ("train", "learn", "trainable", "training", "loss")
"""Keys with true or false: whether something is learned."""

LOSS = "loss"
"""The one of them that is also the name of a measured number, which a row may have."""


def learned_by_flags(fields: Mapping[str, object], where: str) -> bool:
    """Returns whether a turn is learned according to its true-or-false keys.

    Raises:
        InputError: such a key is neither true nor false, they disagree, or the turn has a
            `mask`, which means learned in some data and excluded in other data.
    """
    if fields.get("mask") is not None:
        raise InputError(f"{where}: 'mask' is ambiguous: expected 'weight', 0 or 1")
    values: set[bool] = set()
    for key in FLAG_KEYS:
        value = fields.get(key)
        if value is None:
            continue
        if not isinstance(value, bool):
            raise InputError(f"{where}: {key!r}: expected true or false, or 'weight' 0 or 1")
        values.add(value)
    if len(values) > 1:
        raise InputError(f"{where}: both true and false: expected only 'weight', 0 or 1")
    return values != {False}
