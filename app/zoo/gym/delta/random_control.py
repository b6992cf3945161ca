"""Writes the control for a delta: the same scales with random signs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from zoo.gym.delta.codecs.lowrank import code_factor, decode_factors
from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.codecs.values import Parts
from zoo.gym.delta.file.header import WHOLE_BASE_KEY
from zoo.gym.delta.file.reader import Delta, load_delta, tensor_parts
from zoo.gym.delta.file.terms import (
    IntTerm,
    LowRankTerm,
    RawTerm,
    SignTerm,
    SparseTerm,
    TensorTerms,
    TernaryTerm,
    plane_names,
)
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def has_random_control(delta: Delta) -> bool:
    """Returns whether a delta has coded differences, whose signs can be drawn again."""
    terms = [term for tensor in delta.header.tensors for term in tensor.terms]
    is_exact = any(isinstance(term, SparseTerm) for term in terms)
    return not is_exact and not all(isinstance(term, RawTerm) for term in terms)


def random_signs(path: Path, out: Path, seed: int) -> Delta:
    """Writes a copy of a delta with random signs and without raw terms.

    A sign term keeps its scales and gets random bits; ternary digits and integers keep their
    magnitudes and scales. Each entry of a low-rank factor keeps its magnitude, gets a random sign,
    and is encoded again with the same codec.

    Args:
        path: the delta.
        out: the control's file.
        seed: the seed of the signs; the same seed gives the same file.

    Raises:
        InputError: `path` is not an intact delta, has only raw terms, or has sparse terms, which
            contain the fine-tune's own values.
        StorageError: the file cannot be written.
    """
    delta = load_delta(path)
    if any(
        isinstance(term, SparseTerm) for tensor in delta.header.tensors for term in tensor.terms
    ):
        raise InputError(
            f"{path}: expected coded differences, got the fine-tune's own values",
            code="delta.no_control",
        )
    with Spool(out.parent) as spool:
        for encoded in _shuffled(delta, seed):
            spool.add_tensor(encoded)
        if not any(tensor.terms for tensor in spool.tensors):
            raise InputError(
                f"{path}: expected sign or lowrank terms, got only raw terms",
                code="delta.no_control",
            )
        recorded = delta.header.recipe.get(WHOLE_BASE_KEY)
        base: dict[str, JsonValue] = {} if recorded is None else {WHOLE_BASE_KEY: recorded}
        changed = {
            "tensors": tuple(spool.tensors),
            "recipe": {"control": "random-signs", "of": delta.digest} | base,
            "seed": seed,
            "data": None,
            "quality": None,
        }
        write_delta(out, delta.header.model_copy(update=changed), spool)
    return load_delta(out)


def _shuffled(delta: Delta, seed: int) -> Iterator[Encoded]:
    import numpy as np

    for index, tensor in enumerate(delta.header.tensors):
        random = np.random.Generator(np.random.PCG64([seed, index]))
        parts = tensor_parts(delta, tensor)
        terms = tuple(term for term in tensor.terms if not isinstance(term, RawTerm))
        drawn: dict[str, NDArray[Any]] = {}
        for term in terms:
            if isinstance(term, SignTerm):
                drawn |= _random_bits(term, parts, tensor.shape[-1], random)
            elif isinstance(term, LowRankTerm):
                drawn |= _random_factors(term, parts, tensor, random)
            elif isinstance(term, TernaryTerm):
                drawn["ternary.codes"] = _mirrored(parts["ternary.codes"], 5, 3, tensor, random)
            elif isinstance(term, IntTerm):
                packed = (8 // term.bits, 1 << term.bits)
                drawn["int.codes"] = _mirrored(parts["int.codes"], *packed, tensor, random)
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


def _mirrored(
    codes: "NDArray[np.uint8]",
    per_byte: int,
    radix: int,
    tensor: TensorTerms,
    random: "np.random.Generator",
) -> "NDArray[np.uint8]":
    """Mirrors each digit around the middle with probability 1/2; digits past a row's end stay 0."""
    import numpy as np

    columns, places = tensor.shape[-1], radix ** np.arange(per_byte)
    top = radix if radix > 4 else radix - 1  # 1 to 15 are centred on 8, 1 to 255 on 128
    mirrored = np.empty_like(codes)
    for row, row_codes in enumerate(codes):
        digits = (row_codes[:, None] // places % radix).reshape(-1)
        coins = random.integers(0, 2, columns, np.uint8) == 1
        digits[:columns] = np.where(coins, top - digits[:columns], digits[:columns])
        mirrored[row] = np.minimum(digits, radix - 1).reshape(-1, per_byte) @ places
    return mirrored
