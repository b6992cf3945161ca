"""Codes a fine-tune in the form of a round and writes it as a contribution.

The file is a delta, version 1, with one term for each tensor of the manifest, and neither recipe
nor seed nor data: nothing of the contributor but the weights.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.codecs.dense import code_matrix, dense_term
from zoo.gym.delta.codecs.lowrank import code_factors
from zoo.gym.delta.codecs.options import LowRank
from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.header import DeltaHeader
from zoo.gym.delta.file.terms import RawTerm, TensorTerms, Term
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.gym.delta.sanity import warn_of_other_base
from zoo.gym.errors import GymError, InputError
from zoo.gym.jobs import run_around
from zoo.gym.paths import given_path
from zoo.gym.rounds.arrays import F32
from zoo.gym.rounds.contribution.check import (
    FACTORS,
    SIGNS,
    open_contribution,
    round_header,
    views_of,
)
from zoo.gym.rounds.protocol.manifest import Coding, Tensor
from zoo.gym.train.run_folder.base import refuse_other_base
from zoo.gym.tuned.changes import CODED_FACTORS, FULL, Changes, read_changes
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.runs import run_config
from zoo.gym.tuned.source import Source, source_at
from zoo.models.registry import PICO
from zoo.models.resolve import is_path, model_of_text, pico_folder

if TYPE_CHECKING:
    from zoo.gym.delta.file.reader import Delta


def refuse_other_record(source: Path, base: Path, weights: Weights, coding: Coding) -> None:
    """Refuses a fine-tune that was made for another base, as far as this machine can tell.

    Args:
        source: see `open_tuned`.
        base: the folder of the base that it would be contributed about.

    Raises:
        InputError: the run of the fine-tune began with another base, or the base that an adapter
            names is on this machine and has other values in the round's tensors.

    Warns:
        GymWarning: an adapter names another known model, which is not on this machine.
    """
    if (run := run_around(source)) is not None:
        try:
            refuse_other_base(run.env_file, base)
        except InputError as error:
            hint = _where(run_config(run).model_name_or_path)
            raise InputError(error.message, hint=hint, code=error.code) from None
    elif is_adapter(source):
        _refuse_other_adapter(source, base, weights, coding)


def _refuse_other_adapter(source: Path, base: Path, weights: Weights, coding: Coding) -> None:
    text = Source("adapter", source).base
    if text is None:
        return
    recorded = _opened(text)
    if recorded is None:
        warn_of_other_base(source, base)
        return
    names = [tensor.name for tensor in coding.tensors]
    strange = any(name not in recorded.tensors for name in names)
    if strange or identity(recorded, names) != identity(weights, names):
        raise InputError(
            f"{source}: expected an adapter of the base {base}, got one of {text}, which has "
            "other values in the tensors that count",
            hint=_where(text),
            code="rounds.other_adapter_base",
        )


def _opened(text: str) -> Weights | None:
    """Returns the weights of a base that an adapter names, if it is known here without the hub."""
    stated = model_of_text(text)
    try:
        if stated is not None and stated.id == PICO:
            return open_weights(pico_folder())
        return open_weights(given_path(Path(text))) if is_path(text) else None
    except (GymError, OSError, ValueError):  # missing, or no longer a model
        return None


def _where(base: str) -> str:
    return (
        f"contribute it where {base} is the base; a round about that one starts with: zoo-gym "
        f"round create NAME --base {base}"
    )


MOST_ZEROS = 0.25
"""Signs of zeros say nothing: with a larger share of them they would be votes for minus."""


def write_contribution(source: Path, base: Path, manifest: Coding, out: Path) -> "Delta":
    """Writes what a fine-tune contributes to a round, and returns the checked file.

    Args:
        source: see `open_tuned`.

    Raises:
        NotAvailableError: the source or the base is missing.
        InputError: the base is not that of the round or of the fine-tune, or the source cannot be
            coded as the round wants it: it changes another tensor, nothing, or too little for
            signs.
        StorageError: the file cannot be written.
    """
    weights = open_weights(base)
    changes = checked_changes(source, base, weights, manifest)
    with Spool(out.parent) as spool:
        zeros = 0
        for tensor in manifest.tensors:
            encoded, without = _encode(changes, tensor, manifest)
            zeros += without
            spool.add_tensor(encoded)
        _check_zeros(zeros, manifest, source)
        write_delta(out, contribution_header(spool.tensors, manifest), spool)
    try:
        delta = open_contribution(out, manifest)
        _check_change(delta, manifest, source)
    except InputError:
        out.unlink()  # beyond a cap, or nothing
        raise
    return delta


def checked_changes(source: Path, base: Path, weights: Weights, manifest: Coding) -> Changes:
    """Returns what a fine-tune changes, if it is one of this base and the base is the round's.

    Raises:
        NotAvailableError: the source is missing.
        InputError: the base is another one, or the source changes another tensor or nothing.
    """
    check_base(weights, manifest)
    changes = read_changes(source_at(source), weights)
    refuse_other_record(source, base, weights, manifest)
    check_names(changes, manifest)
    return changes


def check_base(base: Weights, manifest: Coding) -> None:
    """Refuses a base that is not the one of a round.

    Raises:
        InputError: a tensor is missing or of another shape, or the identity differs.
    """
    for tensor in manifest.tensors:
        if tensor.name not in base.tensors or base.shape(tensor.name) != tensor.shape:
            raise InputError(
                f"{base.source}: expected the base {manifest.base.model} of the round, got one "
                f"without tensor {tensor.name!r} of shape {list(tensor.shape)}",
                code="rounds.other_base",
            )
    if identity(base, [tensor.name for tensor in manifest.tensors]) != manifest.base.identity:
        raise InputError(
            f"{base.source}: expected the base {manifest.base.model} of the round, got another",
            hint=f"its identity is {manifest.base.identity}",
            code="rounds.other_base",
        )


def check_names(changes: Changes, manifest: Coding) -> None:
    """Refuses a fine-tune that changes nothing, or another tensor than the round's.

    Raises:
        InputError: the tensor is named.
    """
    listed = {tensor.name for tensor in manifest.tensors}
    strange = next((name for name in changes.names if name not in listed), None)
    if strange is not None:
        raise InputError(
            f"{changes.source}: expected changes of the round's tensors only, got one of "
            f"{strange!r}",
            hint=_how_to_train(changes, manifest),
            code="rounds.other_tensors",
        )
    if not changes.names:
        raise _no_change(changes.source)


def _how_to_train(changes: Changes, manifest: Coding) -> str:
    parts = [tensor.name.removesuffix(".weight").split(".") for tensor in manifest.tensors]
    modules = ",".join(sorted({part[-1] for part in parts}))
    numbers = {int(word) for part in parts for word in part if word.isdecimal()}
    adapters = f"lora_target={modules} trains adapters of its layers"
    if changes.kind != FULL or not numbers:
        return adapters
    count = len(numbers) * (-1 if 0 in numbers else 1)  # the first layers, or the last ones
    freezes = f"finetuning_type=freeze freeze_trainable_layers={count}"
    return f"{freezes} freeze_trainable_modules={modules} trains these alone; {adapters}"


def _check_change(delta: "Delta", manifest: Coding, source: Path) -> None:
    if not views_of([delta], manifest).gram().any():  # as a round would refuse it
        raise _no_change(source)


def _no_change(source: Path) -> InputError:
    return InputError(
        f"{source}: expected a fine-tune, got no change from the base", code="rounds.no_change"
    )


def kept_of_adapter(source: Path, base: Path, coding: Coding) -> float | None:
    """Returns the share of an adapter's squared norm that form signs keeps, 0 to 1.

    The scale of a tensor is the mean of its absolute values, so that the share is also the square
    of the cosine between the change and what is coded. None in other forms and of other sources.

    Args:
        source: a fine-tune that the round takes, see `open_tuned`.
    """
    import numpy as np

    if coding.form != "signs" or not is_adapter(source):
        return None
    changes = open_tuned(source, base).changes
    coded = total = 0.0
    for name in changes.names:
        change = changes.change(name)
        scale = float(np.abs(change).mean(dtype=np.float64))
        coded += change.size * scale * scale
        total += float(np.square(change, dtype=np.float64).sum())
    return coded / total if total > 0 else None


def _encode(changes: Changes, tensor: Tensor, manifest: Coding) -> tuple[Encoded, int]:
    import numpy as np

    changed = tensor.name in changes.names
    if manifest.form == "lowrank":
        rows, columns = tensor.shape
        none = np.zeros((1, columns), np.float32), np.zeros((1, rows), np.float32)
        factors = changes.factors(tensor.name) if changed else none
        if factors is None:
            made_of = "the run or the adapter that the delta was made of"
            raise InputError(
                f"{changes.source}: expected factors for a round of form lowrank, got "
                f"{changes.kind}",
                hint=f"contribute {made_of if changes.kind == CODED_FACTORS else 'a LoRA adapter'}",
                code="rounds.no_factors",
            )
        term, arrays = code_factors(tensor.name, *factors, LowRank(FACTORS))
        return _encoded(tensor, term, arrays), 0
    change = changes.change(tensor.name) if changed else np.zeros(tensor.shape, np.float32)
    zeros = change.size - int(np.count_nonzero(change))
    if manifest.form == "signs":
        return _coded_signs(tensor, change), zeros
    return _encoded(tensor, RawTerm(), {"raw": change}), zeros


def _coded_signs(tensor: Tensor, change: F32) -> Encoded:
    import numpy as np

    nothing = Values(np.zeros_like(change), "f32", "base")
    coded = code_matrix(nothing, Values(change, "f32", tensor.name), SIGNS)
    if coded is None:
        rows, columns = tensor.shape
        bits = np.zeros((rows, -(-columns // 8)), np.uint8)
        return _encoded(tensor, dense_term(SIGNS), {"sign": bits, "scale": np.zeros(1, np.float32)})
    return _encoded(tensor, dense_term(SIGNS), coded[1])


def _encoded(tensor: Tensor, term: Term, arrays: Mapping[str, Any]) -> Encoded:
    return Encoded(TensorTerms(name=tensor.name, shape=tensor.shape, terms=(term,)), arrays)


def _check_zeros(zeros: int, manifest: Coding, source: Path) -> None:
    size = sum(tensor.size for tensor in manifest.tensors)
    if zeros == size:
        raise _no_change(source)
    if manifest.form == "signs" and zeros >= MOST_ZEROS * size:
        raise InputError(
            f"{source}: expected changes of most weights for a round of form signs, got "
            f"{zeros / size:.0%} zeros",
            hint="a sign says nothing of a weight that did not change; rounds of form lowrank or "
            "float take such a fine-tune",
            code="rounds.many_zeros",
        )


def contribution_header(terms: Sequence[TensorTerms], manifest: Coding) -> DeltaHeader:
    """Returns the header of a contribution, which says nothing of its contributor."""
    return round_header("lowrank" if manifest.form == "lowrank" else "dense", terms, manifest)
