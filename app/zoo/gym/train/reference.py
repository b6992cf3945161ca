"""Log-probabilities of a reference, for methods that learn from rows: scored once, before step 1.

A method calls this in `prepare`, when the policy is still the model that training starts from, so
no second model is needed. The scores are stored in the run folder and read on a resume, if they
are of these rows and this model and unchanged; above `IN_MEMORY_BYTES` they stay on disk, and each
row is read when it is used.
Methods that need the reference's whole distribution keep a scorer (`Policy.reference`) instead.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.units import Example, Unit, rows_of
from zoo.gym.delta.origin.digests import stored_weights_digest
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.files import new_file, read_json_object
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.train.parallel.pace import scored
from zoo.gym.train.plan import batch_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy

IN_MEMORY_BYTES = 256_000_000


def with_reference(policy: "Policy", units: Sequence[Unit], file: Path) -> tuple[Unit, ...]:
    """Returns units whose rows have the log-probabilities of `policy` as it is now, float32 [T].

    Args:
        policy: the model that training starts from.
        units: the units to score; their rows keep the extras that they have.
        file: the file of scores, possibly written by an earlier process of the run.

    Warns:
        GymWarning: the file has other contents, and is written anew.

    Raises:
        ValueError: the rows have such scores already.
        InputError: a score is not finite.
        StorageError: the file cannot be written.
    """
    units = tuple(units)  # those of many rows are made anew at each access
    if any(REF_LOGPROBS in row.extras for row in rows_of(units)):
        raise ValueError(f"extras: expected rows without {REF_LOGPROBS}, got rows that have them")
    names = {"rows": digest_of(units), "model": _digest_of_model(policy, file.parent)}
    total = sum(len(row.ids) for row in rows_of(units))
    ranks = policy.ranks
    if ranks.share(_is_missing(file, names, total) if ranks.is_first else None):
        scores = score_rows(policy, units)
        if ranks.is_first:
            _store(file, scores, names)
        ranks.meet()
    stored = _read(file, rows_of(units))
    return tuple(
        Unit(tuple(replace(row, extras=next(stored)) for row in unit.rows)) for unit in units
    )


def _is_missing(file: Path, names: Mapping[str, str], total: int) -> bool:
    """Returns whether a file does not exist, after removing one with other contents."""
    if file.exists() and (fault := _fault(file, names, total)) is not None:
        warnings.warn(f"{file.name}: scored again: {fault}", GymWarning, stacklevel=3)
        file.unlink()
    return not file.exists()


def digest_of(units: Sequence[Unit]) -> str:
    """Returns a digest of the tokens and masks of all rows, in order."""
    digest = blake2b(digest_size=16)
    for row in rows_of(units):
        digest.update(len(row.ids).to_bytes(8, "little") + row.ids.tobytes() + row.mask.tobytes())
    return digest.hexdigest()


def score_rows(policy: "Policy", units: Sequence[Unit]) -> "list[NDArray[np.float32]]":
    """Returns the log-probabilities of each row's tokens, [T], zero where nothing is learned.

    Raises:
        InputError: one is not finite; the message says which row.
    """
    import numpy as np

    from zoo.backends.base import Stat

    scores: dict[int, NDArray[np.float32]] = {}
    limit = batch_tokens(policy.parameter_count())
    parts = list(micro_batches(units, max_batch_tokens=limit))
    needs = frozenset({Stat.LOGPROBS})
    local = scored(
        policy,
        policy.ranks,
        len(parts),
        lambda index: policy.score(collate(parts[index]), needs),
        needs,
    )
    for part, statistics in zip(parts, policy.ranks.join(local), strict=True):
        for row, values in zip(rows_of(part), statistics[Stat.LOGPROBS], strict=True):
            if not np.isfinite(values).all():
                raise InputError(
                    f"{row.source}: expected finite log-probabilities, got NaN or Inf",
                    code="train.not_finite",
                )
            scores[id(row)] = values[: len(row.ids)]
    return [scores[id(row)] for row in rows_of(units)]


class _OnDisk(Mapping[str, Any]):
    """The extras of one row; its scores are read from the file each time they are used."""

    def __init__(
        self,
        fields: Mapping[str, Any],
        values: Any,  # noqa: ANN401 - a file's slice
        start: int,
        stop: int,
    ) -> None:
        self._others, self._values, self._start, self._stop = fields, values, start, stop

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name != REF_LOGPROBS:
            return self._others[name]
        return self._values[self._start : self._stop]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._others, REF_LOGPROBS))

    def __len__(self) -> int:
        return len(self._others) + 1


def _digest_of_model(policy: "Policy", run: Path) -> str:
    """Returns a digest of the trained values at the start, and of the base that the run records."""
    digest = blake2b(digest_size=16)
    env = read_json_object(run / "env.json")
    digest.update(str(stored_weights_digest(env or {})).encode())
    for name, values in policy.trained():
        digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


def _fault(file: Path, names: Mapping[str, str], total: int) -> str | None:
    """Returns why a file does not contain these scores, or None if it does.

    Args:
        file: an existing file.
        names: the digests of rows and model.
        total: the number of tokens.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as stored:
            header: Mapping[str, str] = stored.metadata() or {}
            for part, name in names.items():
                if header.get(part) != name:
                    return f"expected the scores of this run's {part}, got others"
            if REF_LOGPROBS not in stored.keys():  # noqa: SIM118 - it is not a mapping
                return f"expected {REF_LOGPROBS}, got other tensors"
            values: Any = stored.get_slice(REF_LOGPROBS)
            if values.get_shape() != [total]:
                return f"expected {total} scores, got the shape {values.get_shape()}"
            parts = (values[i : min(i + _PIECE, total)] for i in range(0, total, _PIECE))
            if header.get("values") != _digest_of_values(parts):
                return "expected the scores as they were stored, got damaged ones"
    except (OSError, SafetensorError) as error:
        return f"it cannot be read: {error}"
    return None


_PIECE = 1 << 20
"""Scores that are read at once."""


def _digest_of_values(parts: "Iterable[NDArray[np.float32]]") -> str:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.tobytes())
    return digest.hexdigest()


def _store(file: Path, scores: "Sequence[NDArray[np.float32]]", names: Mapping[str, str]) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    with new_file(file) as beside:
        header = {**names, "values": _digest_of_values(scores)}
        save_file({REF_LOGPROBS: np.concatenate(scores)}, beside, metadata=header)


def _read(file: Path, rows: Sequence[Example]) -> Iterator[Mapping[str, Any]]:
    """Yields the extras of each row: slices of one array, or of the file if it is large."""
    from safetensors import safe_open

    total = sum(len(row.ids) for row in rows)
    stored: Any = safe_open(file, framework="np")
    on_disk = 4 * total > IN_MEMORY_BYTES
    values = stored.get_slice(REF_LOGPROBS) if on_disk else stored.get_tensor(REF_LOGPROBS)
    start = 0
    for row in rows:
        stop = start + len(row.ids)
        if on_disk:
            yield _OnDisk(row.extras, values, start, stop)
        else:
            yield {**row.extras, REF_LOGPROBS: values[start:stop]}
        start = stop
