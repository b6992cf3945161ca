"""The control that every delta must beat: the same scales under random signs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.container import Delta, load_delta, read_part
from zoo.gym.delta.header import RawTerm, SignTerm, TensorTerms
from zoo.gym.delta.terms import Encoded, code_factors, decode_factors
from zoo.gym.delta.writer import Spool, write_delta
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def random_signs(path: Path, out: Path, seed: int) -> Delta:
    """Writes a copy of a delta whose signs are drawn at random; raw terms are left out.

    A sign term keeps its scales and gets random bits. Each entry of a low-rank factor keeps its
    magnitude, gets a random sign, and is coded anew at the same size.

    Args:
        path: the delta.
        out: the control's file.
        seed: of the signs; the same seed gives the same file.

    Raises:
        InputError: `path` is no sound delta, or has raw terms only.
        StorageError: the file cannot be written.
    """
    delta = load_delta(path)
    with Spool(out.parent) as spool:
        tensors: list[TensorTerms] = []
        for encoded in _shuffled(delta, seed):
            spool.add_tensor(encoded)
            tensors.append(encoded.tensor)
        if not any(tensor.terms for tensor in tensors):
            raise InputError(f"{path}: expected sign or lowrank terms, got raw terms only")
        told = {
            "tensors": tuple(tensors),
            "recipe": {"control": "random-signs", "of": delta.digest},
            "seed": seed,
            "data": None,
            "quality": None,
        }
        write_delta(out, delta.header.model_copy(update=told), spool)
    return load_delta(out)


def _shuffled(delta: Delta, seed: int) -> Iterator[Encoded]:
    import numpy as np

    for place, tensor in enumerate(delta.header.tensors):
        random = np.random.Generator(np.random.PCG64([seed, place]))
        terms = tuple(term for term in tensor.terms if not isinstance(term, RawTerm))
        kept = tensor.model_copy(update={"terms": terms})
        arrays: list[NDArray[Any]] = []
        for term in terms:
            signed = _random_bits if isinstance(term, SignTerm) else _random_factors
            arrays += signed(delta, kept, random)
        yield Encoded(kept, arrays)


def _random_bits(
    delta: Delta, tensor: TensorTerms, random: "np.random.Generator"
) -> "list[NDArray[Any]]":
    import numpy as np

    plane = delta.parts[f"{tensor.name}.sign"].shape
    bits = np.frombuffer(random.bytes(plane[0] * plane[1]), np.uint8).reshape(plane).copy()
    columns = tensor.shape[-1]
    if columns % 8:
        bits[:, -1] &= (1 << columns % 8) - 1  # bits past the row's end stay 0
    return [bits, read_part(delta, f"{tensor.name}.scale")]


def _random_factors(
    delta: Delta, tensor: TensorTerms, random: "np.random.Generator"
) -> "list[NDArray[Any]]":
    import numpy as np

    plus_minus = np.array([-1, 1], np.float32)
    factors = decode_factors(delta, tensor)
    A, B = (factor * random.choice(plus_minus, factor.shape) for factor in factors)
    return code_factors(tensor.name, A, B)
