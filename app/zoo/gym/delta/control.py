"""The control that every delta must beat: the same scales under random signs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.codec import Encoded, Parts
from zoo.gym.delta.container import Delta, load_delta, tensor_parts
from zoo.gym.delta.factors import code_factor, decode_factors
from zoo.gym.delta.kinds import LowRankTerm, RawTerm, SignTerm, TensorTerms, plane_names
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
        parts = tensor_parts(delta, tensor)
        terms = tuple(term for term in tensor.terms if not isinstance(term, RawTerm))
        drawn: dict[str, NDArray[Any]] = {}
        for term in terms:
            if isinstance(term, SignTerm):
                drawn |= _random_bits(term, parts, tensor.shape[-1], random)
            elif isinstance(term, LowRankTerm):
                drawn |= _random_factors(term, parts, tensor, random)
        yield Encoded(tensor.model_copy(update={"terms": terms}), {**parts, **drawn})


def _random_bits(
    term: SignTerm, parts: Parts, columns: int, random: "np.random.Generator"
) -> "dict[str, NDArray[Any]]":
    import numpy as np

    planes: dict[str, NDArray[Any]] = {}
    for plane in plane_names(term):
        rows, row_bytes = parts["sign"].shape
        bits = np.frombuffer(random.bytes(rows * row_bytes), np.uint8).reshape(rows, -1).copy()
        if columns % 8:
            bits[:, -1] &= (1 << columns % 8) - 1  # bits past the row's end stay 0
        planes[f"sign{plane}"] = bits & parts["mask"] if term.zero == "mask" else bits
    return planes


def _random_factors(
    term: LowRankTerm, parts: Parts, tensor: TensorTerms, random: "np.random.Generator"
) -> "dict[str, NDArray[Any]]":
    import numpy as np

    plus_minus = np.array([-1, 1], np.float32)
    factors = decode_factors(term, parts, tensor.shape)
    A, B = (factor * random.choice(plus_minus, factor.shape) for factor in factors)
    name = tensor.name
    return {**code_factor(name, "A", A, term.A), **code_factor(name, "B", B, term.B)}
