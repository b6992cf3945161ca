"""How the contributions of a soup are coded: decided by the first of them.

Signs carry matrices of which most values changed, and nothing else; factors carry adapters; plain
differences carry everything.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.rounds.contribution.write import MOST_ZEROS
from zoo.gym.rounds.privacy.promise import CLIP
from zoo.gym.rounds.protocol.manifest import Base, Caps, Form, Tensor, TensorCoding
from zoo.gym.rounds.session.terms import float_tensors, tensor_names
from zoo.gym.tuned.changes import Changes
from zoo.gym.tuned.opened import open_tuned

_CAPS = Caps(file_bytes=1 << 40, rank=4096, value=1e4)

PRIVATE_RANK = 8
"""Of the factors of a private soup: the noise grows with the root of their number."""


def coding_for(source: Path, base: Path, name: str, signs: bool | None) -> TensorCoding:
    """Returns the coding of a soup whose first contribution is given.

    Args:
        source: the first fine-tune, see `open_tuned`.
        base: the folder of its base.
        name: of the base.
        signs: whether changes are coded as signs; None where they can be.

    Raises:
        InputError: it changes nothing, or signs are required and cannot carry it.
        NotAvailableError: source or base are missing.
    """
    tuned = open_tuned(source, base)
    weights, changes = tuned.weights, tuned.changes
    if not changes.names:
        raise InputError(
            f"{source}: expected a fine-tune, got no change from the base {name}",
            code="published.no_change",
        )
    names, form = _names_and_form(changes, weights, signs)
    return _coding(weights, names, name, form, _CAPS)


def private_coding(base: Path, name: str) -> TensorCoding:
    """Returns the coding of a private soup: factors of the matrices inside the layers of a base.

    Args:
        base: its folder.
        name: for people.

    Raises:
        InputError: the base has no such matrices.
    """
    weights = open_weights(base)
    names = tensor_names(weights)
    rank = min(PRIVATE_RANK, *(min(weights.shape(tensor)) for tensor in names))
    caps = Caps(file_bytes=1 << 40, rank=rank, value=CLIP)
    return _coding(weights, names, name, "lowrank", caps)


def _coding(
    weights: Weights, names: Sequence[str], base: str, form: Form, caps: Caps
) -> TensorCoding:
    tensors = tuple(Tensor(name=name, shape=weights.shape(name)) for name in names)
    return TensorCoding(Base(identity=identity(weights, names), model=base), tensors, form, caps)


def _names_and_form(
    changes: Changes, weights: Weights, signs: bool | None
) -> tuple[list[str], Form]:
    adapted = changes.factors(changes.names[0]) is not None
    if signs is False:
        return (changes.names, "lowrank") if adapted else (float_tensors(weights), "float")
    reason = _why_no_signs(changes, weights)
    if not reason:
        return changes.names, "signs"
    if signs:
        raise InputError(
            f"use_bitdelta: expected changes that signs can carry, got {reason}",
            hint="use_bitdelta=False keeps them as they are",
            code="published.not_signs",
        )
    form: Form = "lowrank" if adapted else "float"
    warnings.warn(
        f"use_bitdelta: {reason}: contributions are kept as "
        f"{'factors' if adapted else 'plain differences'} in place of signs",
        GymWarning,
        stacklevel=4,
    )
    return (changes.names, form) if adapted else (float_tensors(weights), form)


def _why_no_signs(changes: Changes, weights: Weights) -> str:
    import numpy as np

    other = next((name for name in changes.names if len(weights.shape(name)) != 2), None)
    if other is not None:
        return f"a change of {other!r}, which is no matrix"
    zeros = size = 0
    for name in changes.names:
        change = changes.change(name)
        zeros += change.size - int(np.count_nonzero(change))
        size += change.size
    return f"{zeros / size:.0%} zeros" if zeros >= MOST_ZEROS * size else ""
