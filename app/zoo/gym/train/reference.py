"""Log-probabilities of a reference, for methods that learn from rows: scored once, before step 1.

A method calls this in `prepare`, when the policy is still the model that training starts from, so
no second model is needed. The scores are stored in the run folder and read on a resume; above
`IN_MEMORY_BYTES` they stay on disk, and each row is read when it is used.
Methods that need the reference's whole distribution keep a scorer (`Policy.reference`) instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.units import Example, Unit, rows_of
from zoo.gym.errors import InputError
from zoo.gym.files import new_file
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.train.planning.plan import batch_tokens

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

    Raises:
        ValueError: the rows have such scores already.
        InputError: a score is not finite.
        StorageError: the file cannot be written.
    """
    units = tuple(units)  # those of many rows are made anew at each access
    if any(REF_LOGPROBS in row.extras for row in rows_of(units)):
        raise ValueError(f"extras: expected rows without {REF_LOGPROBS}, got rows that have them")
    name = digest_of(units)
    if not _contains(file, name):
        _store(file, score_rows(policy, units), name)
    found = _read(file, rows_of(units))
    return tuple(
        Unit(tuple(replace(row, extras=next(found)) for row in unit.rows)) for unit in units
    )


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
    for part in micro_batches(units, max_batch_tokens=limit):
        found = policy.score(collate(part), frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]
        for row, values in zip(rows_of(part), found, strict=True):
            if not np.isfinite(values).all():
                raise InputError(f"{row.source}: expected finite reference scores, got NaN or Inf")
            scores[id(row)] = values[: len(row.ids)]
    return [scores[id(row)] for row in rows_of(units)]


class _OnDisk(Mapping[str, Any]):
    """The extras of one row; its scores are read from the file each time they are used."""

    def __init__(
        self,
        others: Mapping[str, Any],
        values: Any,  # noqa: ANN401 - a file's slice
        start: int,
        stop: int,
    ) -> None:
        self._others, self._values, self._start, self._stop = others, values, start, stop

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name != REF_LOGPROBS:
            return self._others[name]
        return self._values[self._start : self._stop]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._others, REF_LOGPROBS))

    def __len__(self) -> int:
        return len(self._others) + 1


def _contains(file: Path, name: str) -> bool:
    """Returns whether a file contains the scores of these rows; False for a damaged one."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        return False
    try:
        with safe_open(file, framework="np") as stored:
            return (stored.metadata() or {}).get("rows") == name
    except (OSError, SafetensorError):
        return False


def _store(file: Path, scores: "Sequence[NDArray[np.float32]]", name: str) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    with new_file(file) as beside:
        save_file({REF_LOGPROBS: np.concatenate(scores)}, beside, metadata={"rows": name})


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
