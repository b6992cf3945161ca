"""Checks a plan: writes deltas of synthetic weights in the real shapes, reads and applies them.

Only one tensor is in memory at a time, and no model is written: base, fine-tune and factors are
generated from the tensor's name whenever they are needed.
"""

import hashlib
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.delta.codecs.floats import from_bf16, to_bf16
from zoo.gym.delta.codecs.lowrank import code_factors
from zoo.gym.delta.codecs.options import Coding, Dense, LowRank
from zoo.gym.delta.codecs.tensor import Encoded, apply_rows, encode_tensor
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.reader import Delta, load_delta, tensor_parts
from zoo.gym.delta.file.terms import LowRankTerm, TensorTerms
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.delta.planning.plan import FORMS, WHOLE, Planned, header_for
from zoo.gym.files import private_path, storage_errors
from zoo.gym.paths import make_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Report = Callable[[str], None]

_ROWS_AT_ONCE = 1024
_SIGN_AND_MANTISSA = 0x807F
_EXPONENT_BIT = 7
_WEIGHTS, _CHANGES = 121, 117  # biased exponents: 2^-6 to 2^-5, and a sixteenth of that


@dataclass(frozen=True)
class Trial:
    """The measured size and quality of one kind of delta.

    Attributes:
        name: the plan's name.
        payload_bytes: the size of all parts in the file.
        file_bytes: the size of the file.
        as_planned: whether both equal the plan.
        kept: 1 - |applied - tuned|^2 / |tuned - base|^2, over all weights.
    """

    name: str
    payload_bytes: int
    file_bytes: int
    as_planned: bool
    kept: float


def try_plan(
    planned: list[Planned], folder: Path, *, report: Report = lambda _: None
) -> list[Trial]:
    """Writes each delta of a plan to a temporary folder, reads and applies it, and deletes it.

    Args:
        planned: from `plan_shapes`; that of all tensors is skipped.
        folder: a folder with free space for twice the size of the files.
        report: called with a line of progress.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    plans = [plan for plan in planned if plan.name != WHOLE]
    with _private_folder(folder) as private:
        files = {plan.name: private / f"{at}.safetensors" for at, plan in enumerate(plans)}
        _write(plans, files, report)
        return [_read(plan, files[plan.name], report) for plan in plans]


@contextmanager
def _private_folder(folder: Path) -> Generator[Path]:
    private = private_path(folder / "plan")
    with storage_errors(folder):
        make_folder(private)
    try:
        yield private
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _write(plans: list[Planned], files: dict[str, Path], report: Report) -> None:
    """Encodes each tensor with every coding in one pass, and writes the files."""
    tensors = plans[0].header.tensors
    coded: dict[str, list[TensorTerms]] = {plan.name: [] for plan in plans}
    with ExitStack() as stack:
        spools = {name: stack.enter_context(Spool(file.parent)) for name, file in files.items()}
        for at, tensor in enumerate(tensors, 1):
            report(f"encoding tensor {at} of {len(tensors)}")
            pair = _pair(tensor)
            for plan in plans:
                encoded = _encode(tensor, FORMS[plan.name][0], plan, pair)
                spools[plan.name].add_tensor(encoded)
                coded[plan.name].append(encoded.tensor)
        for plan in plans:
            header = header_for(plan.header.base.id, FORMS[plan.name][0], coded[plan.name])
            write_delta(files[plan.name], header, spools[plan.name])


def _encode(
    tensor: TensorTerms, coding: Coding, plan: Planned, pair: tuple[Values, Values]
) -> Encoded:
    if isinstance(coding, Dense):
        encoded = encode_tensor(tensor.name, *pair, coding)
        assert encoded is not None  # a random fine-tune differs
        return encoded
    A, B = _factors(tensor, _rank(plan))
    term, arrays = code_factors(tensor.name, A, B, coding)
    return Encoded(TensorTerms(name=tensor.name, shape=tensor.shape, terms=(term,)), arrays)


def _read(plan: Planned, file: Path, report: Report) -> Trial:
    delta = load_delta(file)
    error = energy = 0.0
    for at, tensor in enumerate(delta.header.tensors, 1):
        report(f"{plan.name}: applying tensor {at} of {len(delta.header.tensors)}")
        lost, expected = _apply(plan, delta, tensor)
        error, energy = error + lost, energy + expected
    sizes = (delta.payload_bytes, delta.file_bytes)
    as_planned = sizes == (plan.payload_bytes, plan.file_bytes)
    return Trial(plan.name, *sizes, as_planned, kept=1 - error / energy)


def _apply(plan: Planned, delta: Delta, tensor: TensorTerms) -> tuple[float, float]:
    """Applies a tensor's terms block by block; returns the energies of error and difference."""
    import numpy as np

    base, tuned = _pair(tensor)
    parts, factors = tensor_parts(delta, tensor), None
    if isinstance(FORMS[plan.name][0], LowRank):
        factors = _factors(tensor, _rank(plan))
    error = energy = 0.0
    for start in range(0, tensor.shape[0], _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, tensor.shape[0]))
        base_values = from_bf16(base.values[rows])
        applied = base_values.copy()
        apply_rows(tensor, parts, rows, applied)
        if factors is None:
            expected = from_bf16(tuned.values[rows]) - base_values
        else:
            expected = factors[1][:, rows].T @ factors[0]
        lost = (applied - base_values - expected).reshape(-1)
        flat = expected.reshape(-1)
        error += float(np.dot(lost, lost))
        energy += float(np.dot(flat, flat))
    return error, energy


def _pair(tensor: TensorTerms) -> tuple[Values, Values]:
    """Generates a tensor's bf16 weights, and those of a fine-tune."""
    base, change = (_draw(tensor, exponent) for exponent in (_WEIGHTS, _CHANGES))
    tuned = from_bf16(base)
    tuned += from_bf16(change)
    return Values(base, "bf16", "base"), Values(to_bf16(tuned), "bf16", "tuned")


def _draw(tensor: TensorTerms, exponent: int) -> "NDArray[np.uint16]":
    """Generates bf16 values of either sign with magnitudes between two powers of two."""
    import numpy as np

    bits = _generator(tensor, exponent).integers(0, 1 << 16, tensor.shape, np.uint16)
    bits &= np.uint16(_SIGN_AND_MANTISSA)
    bits |= np.uint16(exponent << _EXPONENT_BIT)
    return bits


def _factors(tensor: TensorTerms, rank: int) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Generates the factors A [rank, in] and B [rank, out] of an adapter."""
    import numpy as np

    rows, columns = tensor.shape
    generator = _generator(tensor, rank)
    A, B = (generator.standard_normal((rank, n), np.float32) for n in (columns, rows))
    return A, B * np.float32(0.01)


def _generator(tensor: TensorTerms, salt: int) -> "np.random.Generator":
    import numpy as np

    key = hashlib.sha256(f"{tensor.name} {salt}".encode()).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(key[:8], "little")))


def _rank(plan: Planned) -> int:
    (term,) = plan.header.tensors[0].terms
    assert isinstance(term, LowRankTerm)
    return term.rank
