"""Reads which turns of a chat the data itself excludes from learning, in any usual spelling."""

from collections.abc import Mapping

from zoo.gym.errors import InputError

WEIGHT_KEYS = ("weight", "loss_weight")
"""Keys of a weight, 0 or 1."""

FLAG_KEYS = ("train", "learn", "trainable", "training", "loss")
"""Keys that say by true or false whether something is learned."""


def learned_by_flags(fields: Mapping[str, object], where: str) -> bool:
    """Returns whether a turn is learned as far as its true-or-false keys go.

    Raises:
        InputError: such a key is neither true nor false, they disagree, or the turn has a
            `mask`, which some data means as learned and some as left out.
    """
    if fields.get("mask") is not None:
        raise InputError(f"{where}: 'mask' may mean either: expected 'weight', 0 or 1")
    said: set[bool] = set()
    for key in FLAG_KEYS:
        value = fields.get(key)
        if value is None:
            continue
        if not isinstance(value, bool):
            raise InputError(f"{where}: {key!r}: expected true or false, or 'weight' 0 or 1")
        said.add(value)
    if len(said) > 1:
        raise InputError(f"{where}: both true and false: expected 'weight' alone, 0 or 1")
    return said != {False}
