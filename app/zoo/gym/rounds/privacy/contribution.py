"""A contribution to a private round: whole numbers on this machine, and sealed ones to send.

A fine-tune is projected on the factors B of the round's fixed A by least squares: for a change
D [out, in] the B [rank, out] with the smallest |D - B^T A| is (A A^T)^-1 A D^T. A change that was
trained on this A is kept whole; of any other one a random A keeps about the share rank / in of the
squared norm.

Numbers are cut towards zero, clipped towards zero, and added up exactly: rounding to nearest could
lift a norm above the clip, and sums of floats depend on their order. Before it is sealed a
contribution is the line `zoo-gym private values 1`, then for each tensor of the manifest in order
B [rank, out], row by row, as signed 32-bit integers, little endian. Its length follows from the
manifest, so that it says nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError
from zoo.gym.files import new_file, open_regular, read_errors, storage_errors
from zoo.gym.rounds.arrays import F32, Whole
from zoo.gym.rounds.contribution.write import checked_changes
from zoo.gym.rounds.privacy import sealing
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.rounds.protocol.privacy import PAYLOAD_LINE, Privacy, count_values, sealed_bytes
from zoo.gym.tuned.changes import Changes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Projected:
    """What is left of a fine-tune.

    Attributes:
        b: float32 [rank, out] by tensor.
        kept: share of the squared norm of all changes, 0 to 1.
        norm: Euclidean norm of all B.
    """

    b: "Mapping[str, F32]"
    kept: float
    norm: float


def project(
    changes: Changes, shapes: Mapping[str, tuple[int, ...]], rank: int, seed: str
) -> Projected:
    """Returns the factors B of a fine-tune; zeros for tensors that it does not change.

    Args:
        seed: of the factors A.

    Raises:
        InputError: a value is not finite.
    """
    import numpy as np

    from zoo.models.fixed_factor import fixed_factor

    factors: dict[str, F32] = {}
    total = left = size = 0.0
    for name, (rows, columns) in sorted(shapes.items()):
        if name not in changes.names:
            factors[name] = np.zeros((rank, rows), np.float32)
            continue
        A = fixed_factor(seed, name, rank, columns).astype(np.float64)
        b, square = _nearest(changes, name, A)
        factors[name] = b.astype(np.float32)
        total += square
        left += float(np.sum(b * (A @ A.T @ b)))
        size += float(np.square(b).sum())
    return Projected(factors, min(1.0, left / total) if total else 0.0, size**0.5)


def _nearest(
    changes: Changes, name: str, A: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], float]":
    """Returns B of one tensor, and the squared norm of its change."""
    import numpy as np

    inverse = np.linalg.pinv(A @ A.T, hermitian=True)
    factors = changes.factors(name)
    if factors is None:
        D = changes.change(name).astype(np.float64)
        return inverse @ (A @ D.T), float(np.square(D).sum())
    a, b = (factor.astype(np.float64) for factor in factors)
    square = float(np.sum((a @ a.T) * (b @ b.T)))
    if np.array_equal(a, A):
        return b, square
    return inverse @ ((A @ a.T) @ b), square


_MOST = (1 << 31) - 1
_HALF = 1 << 16


def to_steps(values: F32, scale: int, clip: float) -> Whole:
    """Returns values as whole numbers of steps, cut towards zero.

    Values far above the clip are scaled down first, so that they fit into 32 bits.

    Raises:
        InputError: a value is not finite.
    """
    import numpy as np

    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise InputError(
            "expected finite values, got a NaN or an infinity", code="rounds.not_finite"
        )
    largest = float(np.abs(wide).max(initial=0.0)) * scale
    if largest > _MOST:
        wide *= min(1.0, clip / float(np.sqrt(np.square(wide).sum())))
    return np.trunc(wide * scale).astype(np.int64)


def square_norm(steps: Whole) -> int:
    """Returns the exact sum of squares of numbers below 2^32 in size."""
    import numpy as np

    flat = np.abs(steps.reshape(-1))
    if int(flat.max(initial=0)) >= 1 << 32:
        raise ValueError("steps: expected fewer than 2^32")
    high, low = flat >> 16, flat & (_HALF - 1)
    parts = (int(np.dot(high, high)), int(np.dot(high, low)), int(np.dot(low, low)))
    return (parts[0] << 32) + (parts[1] << 17) + parts[2]


def clip_steps(steps: Whole, most: int) -> Whole:
    """Clips numbers to a Euclidean norm of `most`; shorter ones are unchanged.

    Longer ones are multiplied by `most / ceil(norm)`, each product cut towards zero.

    Args:
        steps: below 2^32 in size.
        most: below 2^31.
    """
    import numpy as np

    square = square_norm(steps)
    if square <= most * most:
        return steps
    norm = isqrt(square - 1) + 1
    shrunk: Whole = np.sign(steps) * (np.abs(steps) * most // norm)
    return shrunk


def shapes_of(coding: Coding) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a round's tensors, by name."""
    return {tensor.name: tensor.shape for tensor in coding.tensors}


def encode_values(steps: "Sequence[Whole]") -> bytes:
    """Returns the bytes of whole numbers below 2^31 in size, tensor after tensor."""
    return PAYLOAD_LINE + b"".join(part.astype("<i4").tobytes() for part in steps)


def decode_values(content: bytes, count: int) -> Whole:
    """Returns so many whole numbers, one after the other.

    Raises:
        InputError: they are of another form or length.
    """
    import numpy as np

    if len(content) != len(PAYLOAD_LINE) + 4 * count or not content.startswith(PAYLOAD_LINE):
        raise InputError(
            f"expected {count} whole numbers of a private round, got other bytes",
            code="rounds.not_whole",
        )
    return np.frombuffer(content, "<i4", offset=len(PAYLOAD_LINE)).astype(np.int64)


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
            code="rounds.nothing_left",
        )
    norm = projected.norm * privacy.scale
    _write(out, encode_values([steps]))
    return Written(projected.kept, projected.norm, min(1.0, size / norm))


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
        size = path.stat().st_size
    expected = sealed_bytes(values_of(coding))
    if size != expected:
        raise InputError(
            f"contribution: expected {expected} sealed bytes, got {size}", code="rounds.sealed_size"
        )


def read_values(path: Path, coding: Coding, privacy: Privacy) -> Whole:
    """Returns the numbers in a file that is not sealed, clipped.

    Raises:
        InputError: it is no contribution.
        StorageError: it cannot be read.
    """
    return _clipped(_read(path), coding, privacy)


def open_values(path: Path, coding: Coding, privacy: Privacy, private: bytes, info: bytes) -> Whole:
    """Returns the numbers in a sealed contribution, clipped.

    Raises:
        InputError: it is not sealed to the round's key by this contributor, or is no contribution.
        StorageError: it cannot be read.
    """
    check_sealed(path, coding)
    return _clipped(sealing.open_sealed(_read(path), private, info), coding, privacy)


def _clipped(content: bytes, coding: Coding, privacy: Privacy) -> Whole:
    steps = decode_values(content, values_of(coding))
    return clip_steps(steps, privacy.clip_steps)


def _read(path: Path) -> bytes:
    with read_errors(path), open_regular(path) as file:
        return file.read()


def _write(path: Path, content: bytes) -> None:
    with new_file(path) as beside, storage_errors(path):
        beside.write_bytes(content)
