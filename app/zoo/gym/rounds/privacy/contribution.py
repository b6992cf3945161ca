"""A contribution to a private round: whole numbers on this machine, and sealed ones to send."""

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError
from zoo.gym.files import new_file, open_regular, read_errors, storage_errors
from zoo.gym.rounds.contribution.write import checked_changes
from zoo.gym.rounds.privacy import sealing
from zoo.gym.rounds.privacy.projection import project
from zoo.gym.rounds.privacy.terms import Privacy, count_values, sealed_bytes
from zoo.gym.rounds.privacy.whole import (
    clip_steps,
    decode_values,
    encode_values,
    shapes_of,
    square_norm,
    to_steps,
)
from zoo.gym.rounds.protocol.manifest import Coding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Written:
    """What became of a fine-tune.

    Attributes:
        kept: share of its squared norm in the round's factors.
        norm: of its factors B, before clipping.
        clipped: its norm after clipping over the one before; 1 if it was short enough.
    """

    kept: float
    norm: float
    clipped: float


def values_of(coding: Coding) -> int:
    """Returns how many numbers a contribution to a private round has."""
    return count_values(shapes_of(coding), coding.caps.rank)


def write_values(source: Path, base: Path, coding: Coding, privacy: Privacy, out: Path) -> Written:
    """Writes the whole numbers that a fine-tune contributes; they are for this machine alone.

    Args:
        source: see `open_tuned`; what was trained on the round's A is kept whole.
        base: the folder of the base.
        coding: base, tensors and rank of the round.
        privacy: its terms.
        out: the file, replaced if it is there.

    Raises:
        NotAvailableError: the source or the base is missing.
        InputError: the base is not that of the round or of the fine-tune, the source changes
            another tensor or nothing, or nothing of it is left in whole numbers.
        StorageError: the file cannot be written.
    """
    import numpy as np

    weights = open_weights(base)
    changes = checked_changes(source, base, weights, coding)
    shapes = shapes_of(coding)
    projected = project(changes, shapes, coding.caps.rank, privacy.seed)
    flat = np.concatenate([projected.b[name].reshape(-1) for name in sorted(shapes)])
    steps = clip_steps(to_steps(flat, privacy.scale, privacy.clip), privacy.clip_steps)
    size = sqrt(square_norm(steps))
    if not size:
        raise InputError(
            f"{source}: expected a change that is left in the round's factors, got zeros only",
            hint="zoo-gym train FILE round=ROUND trains on them",
        )
    before = projected.norm * privacy.scale
    _write(out, encode_values([steps]))
    return Written(projected.kept, projected.norm, min(1.0, size / before))


def seal_file(values: Path, key: str, info: bytes, out: Path) -> None:
    """Seals written numbers to the round's key.

    Raises:
        InputError: the key is none.
        StorageError: a file cannot be read or written.
    """
    _write(out, sealing.seal(_read(values), key, info))


def check_sealed(path: Path, coding: Coding) -> None:
    """Refuses a file that cannot be a sealed contribution: nobody but the maker can say more.

    Raises:
        InputError: it has another size.
        StorageError: it cannot be read.
    """
    with read_errors(path):
        found = path.stat().st_size
    expected = sealed_bytes(values_of(coding))
    if found != expected:
        raise InputError(f"contribution: expected {expected} sealed bytes, got {found}")


def read_values(path: Path, coding: Coding, privacy: Privacy) -> "NDArray[np.int64]":
    """Returns the numbers in a file that is not sealed, clipped.

    Raises:
        InputError: it is no contribution.
        StorageError: it cannot be read.
    """
    return _clipped(_read(path), coding, privacy)


def open_values(
    path: Path, coding: Coding, privacy: Privacy, private: bytes, info: bytes
) -> "NDArray[np.int64]":
    """Returns the numbers in a sealed contribution, clipped.

    Raises:
        InputError: it is not sealed to the round's key by this contributor, or is no contribution.
        StorageError: it cannot be read.
    """
    check_sealed(path, coding)
    return _clipped(sealing.open_sealed(_read(path), private, info), coding, privacy)


def _clipped(content: bytes, coding: Coding, privacy: Privacy) -> "NDArray[np.int64]":
    steps = decode_values(content, values_of(coding))
    return clip_steps(steps, privacy.clip_steps)


def _read(path: Path) -> bytes:
    with read_errors(path), open_regular(path) as file:
        return file.read()


def _write(path: Path, content: bytes) -> None:
    with new_file(path) as beside, storage_errors(path):
        beside.write_bytes(content)
