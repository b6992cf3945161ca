"""How the contributions of a soup are coded: decided by the first of them.

Signs carry matrices of which most values changed, and nothing else; factors carry adapters; plain
differences carry everything.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import FLOATS, Weights, is_tied, open_weights, own_tensors
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.rounds.contribution.changes import Changes, read_changes
from zoo.gym.rounds.contribution.write import MOST_ZEROS
from zoo.gym.rounds.protocol.manifest import Base, Caps, Form, Tensor

_CAPS = Caps(file_bytes=1 << 40, rank=4096, value=1e4)


@dataclass(frozen=True)
class SoupCoding:
    """What decides the bytes of a contribution, see `protocol.manifest.Coding`.

    Attributes:
        base: what is changed.
        tensors: all that a contribution has.
        form: how changes are coded.
        caps: the largest contribution.
        folder: of the base.
    """

    base: Base
    tensors: tuple[Tensor, ...]
    form: Form
    caps: Caps
    folder: Path


def coding_for(source: Path, base: Path, name: str, signs: bool | None) -> SoupCoding:
    """Returns the coding of a soup whose first contribution is given.

    Args:
        source: the first fine-tune, see `read_changes`.
        base: the folder of its base.
        name: of the base.
        signs: whether changes are coded as signs; None where they can be.

    Raises:
        InputError: it changes nothing, or signs are required and cannot carry it.
        NotAvailableError: source or base are missing.
    """
    weights = open_weights(base)
    changes = read_changes(source, weights)
    if not changes.names:
        raise InputError(f"{source}: expected a fine-tune, got no change from the base {name}")
    names, form = _names_and_form(changes, weights, signs)
    tensors = tuple(Tensor(name=one, shape=weights.shape(one)) for one in names)
    found = Base(identity=identity(weights, names), model=name)
    return SoupCoding(found, tensors, form, _CAPS, base)


def _names_and_form(
    changes: Changes, weights: Weights, signs: bool | None
) -> tuple[list[str], Form]:
    adapted = changes.factors(changes.names[0]) is not None
    if signs is False:
        return (changes.names, "lowrank") if adapted else (_all(weights), "float")
    reason = _why_no_signs(changes, weights)
    if not reason:
        return changes.names, "signs"
    if signs:
        raise InputError(
            f"use_bitdelta: expected changes that signs can carry, got {reason}",
            hint="use_bitdelta=False keeps them as they are",
        )
    form: Form = "lowrank" if adapted else "float"
    warnings.warn(
        f"use_bitdelta: {reason}: contributions are kept as "
        f"{'factors' if adapted else 'plain differences'} in place of signs",
        GymWarning,
        stacklevel=4,
    )
    return (changes.names, form) if adapted else (_all(weights), form)


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


def _all(weights: Weights) -> list[str]:
    own = sorted(own_tensors(weights, tied=is_tied(weights)))
    return [name for name in own if weights.dtype(name) in FLOATS and 0 not in weights.shape(name)]
