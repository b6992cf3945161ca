"""The one step that must be secret: the sum of contributions plus discrete Gaussian noise.

Sum and noise are whole numbers, so no rounding shows what was added (arXiv:2004.00010). The noise
is drawn by the core from ChaCha20 under a key of the system's randomness that nobody keeps.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.file.header import DeltaHeader
from zoo.gym.delta.file.privacy import Privacy as PrivacyRecord
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.delta.file.terms import GROUP, LowRankTerm, TensorTerms
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.rounds.arrays import Bits, Whole
from zoo.gym.rounds.contribution.check import round_header
from zoo.gym.rounds.privacy.contribution import shapes_of
from zoo.gym.rounds.protocol.manifest import Coding
from zoo.gym.rounds.protocol.privacy import Privacy, count_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def add_noise(total: Whole, privacy: Privacy, *, threads: int | None = None) -> None:
    """Adds the noise of a round to the sum of its contributions, in place: never twice for one.

    Args:
        total: the sum of contributions, each of a norm of at most `privacy.clip_steps`.
    """
    from zoo.core import discrete_gaussian

    total += discrete_gaussian(len(total), privacy.sigma, threads=threads)


def record_of(privacy: Privacy, values: int, contributors: int) -> PrivacyRecord:
    """Returns the privacy record of a result."""
    return PrivacyRecord(
        mechanism="discrete-gaussian",
        unit="contribution",
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        sigma=privacy.noise,
        clip=privacy.clip,
        contributors=contributors,
        values=values,
        noise_to_signal=privacy.noise_to_signal(values, contributors),
    )


def write_private_result(
    total: Whole,
    contributors: int,
    coding: Coding,
    privacy: Privacy,
    recipe: Mapping[str, JsonValue],
    out: Path,
) -> Delta:
    """Writes the noisy mean as a delta: A as signs, B in float32, with a privacy record.

    Raises:
        StorageError: the file cannot be written.
    """
    import numpy as np

    mean = (total / np.float64(contributors * privacy.scale)).astype(np.float32)
    rank, at = coding.caps.rank, 0
    with Spool(out.parent) as spool:
        header = private_header(contributors, coding, privacy, recipe)
        for tensor in header.tensors:
            rows, columns = tensor.shape
            b = mean[at : at + rank * rows].reshape(rank, rows)
            at += rank * rows
            parts = fixed_parts(privacy.seed, tensor.name, rank, columns) | {"B.values": b}
            spool.add_tensor(Encoded(tensor, parts))
        write_delta(out, header, spool)
    return load_delta(out)


def private_header(
    contributors: int, coding: Coding, privacy: Privacy, recipe: Mapping[str, JsonValue]
) -> DeltaHeader:
    """Returns the header of a result; it follows from the terms and the contributors alone."""
    rank, shapes = coding.caps.rank, shapes_of(coding)
    term = LowRankTerm(rank=rank, A="sign", B="f32")
    terms = [TensorTerms(name=name, shape=shape, terms=(term,)) for name, shape in shapes.items()]
    record = record_of(privacy, count_values(shapes, rank), contributors)
    return round_header("lowrank", terms, coding, recipe, record)


def fixed_parts(
    seed: str, name: str, rank: int, columns: int
) -> "dict[str, Bits | NDArray[np.float16]]":
    """Returns the parts of the fixed factor A of a tensor in the result's file."""
    import numpy as np

    from zoo.models.fixed_factor import factor_scale, factor_signs

    groups = -(-columns // GROUP)
    scale = np.full((rank, groups), factor_scale(columns), np.float16)
    return {"A.sign": factor_signs(seed, name, rank, columns), "A.scale": scale}
