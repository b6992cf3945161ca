"""The jobs of a round as bytes, and the work of their tasks.

`gram` adds up the exact scalar products of some tensors; `combine` makes the weighted mean, or what
a rule of columns makes, of some tensors. Results are the numbers themselves: uint64 pairs, float32.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.forms.base import Contributions, Piece
from zoo.gym.rounds.protocol.manifest import Tensor
from zoo.gym.rounds.rules.aggregate import Selection, combine
from zoo.gym.rounds.rules.method import AggregationMethod, Rule
from zoo.gym.rounds.rules.weights import Weighing
from zoo.gym.signing import canonical

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "zoo-gym work 1"
COLUMNS = 1 << 24
"""A task has tensors of about so many values."""
MOST_BYTES = 1 << 29
"""The largest result of a task."""

Parts = Callable[[Sequence[str], Sequence[str]], Contributions]
"""Gives some tensors of the contributions with the given digests, or a `MissingFileError`."""


@dataclass(frozen=True)
class Job:
    """A computation that tasks divide.

    Attributes:
        kind: what is computed.
        round: the id of the round.
        contributions: digests, in the order of the rows.
        groups: the tensors of each task.
        selection: of a `combine`.
    """

    kind: Literal["gram", "combine"]
    round: str
    contributions: Sequence[str]
    groups: Sequence[Sequence[str]]
    selection: Selection | None = None

    def as_bytes(self) -> bytes:
        """Returns the description of the job, canonical JSON."""
        return canonical(
            {
                "format": FORMAT,
                "kind": self.kind,
                "round": self.round,
                "contributions": list(self.contributions),
                "groups": [list(group) for group in self.groups],
                "selection": None if self.selection is None else _as_json(self.selection),
            }
        )


def read_job(description: bytes) -> Job:
    """Returns the job with a description.

    Raises:
        UnreadableJobError: it is none.
        InputError: it is one of another version.
    """
    try:
        fields: Any = json.loads(description)
        version = fields["format"]
        if version == FORMAT:
            selection = fields["selection"]
            return Job(
                fields["kind"],
                fields["round"],
                fields["contributions"],
                fields["groups"],
                None if selection is None else _selection(selection),
            )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UnreadableJobError("job: expected a description of a job, got other bytes") from None
    raise InputError(
        f"job: expected format '{FORMAT}', got {version!r:.80}",
        hint="all workers need the same version of zoo-gym",
    )


class UnreadableJobError(InputError):
    """What a queue has as a job is none: somebody else wrote it."""


class MissingFileError(NotAvailableError):
    """The file of a contribution is not on this machine; another one may have it."""


def groups_of(tensors: Sequence[Tensor], columns: int = COLUMNS) -> list[list[str]]:
    """Returns tensors, in order, in groups of about so many values.

    Raises:
        InputError: a tensor is too large for a task.
    """
    groups: list[list[str]] = []
    filled = columns
    for tensor in tensors:
        if 4 * tensor.size > MOST_BYTES:
            raise InputError(
                f"tensor {tensor.name!r}: expected at most {MOST_BYTES // 4} values for a queue, "
                f"got {tensor.size}",
                hint="compute the round in one process",
            )
        if filled >= columns or 4 * (filled + tensor.size) > MOST_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(tensor.name)
        filled += tensor.size
    return groups


def perform(job: Job, number: int, parts: Parts, *, threads: int | None = None) -> bytes:
    """Returns the result of a task.

    Args:
        job: its job.
        number: of the task.
        parts: gives the contributions.
        threads: number of threads; all if None.

    Raises:
        InputError: a contribution has a value that no sum survives, with tensor and contributor.
        MissingFileError: the file of a contribution is not here.
    """
    found = parts(job.contributions, job.groups[number])
    if job.selection is None:
        return found.gram(threads=threads).astype("<u8", copy=False).tobytes()
    pieces = combine(job.selection, found, threads=threads)
    return b"".join(piece.values.astype("<f4", copy=False).tobytes() for piece in pieces)


def fault_of(job: Job, number: int, content: bytes, sizes: Mapping[str, int]) -> str | None:
    """Says why bytes cannot be the result of a task, None if they can.

    Args:
        job: its job.
        number: of the task.
        content: the bytes.
        sizes: number of values of each tensor.
    """
    import numpy as np

    if job.selection is None:
        expected = 16 * len(job.contributions) ** 2
    else:
        expected = 4 * sum(sizes[name] for name in job.groups[number])
    if len(content) != expected:
        return f"expected {expected} bytes, got {len(content)}"
    if job.selection is not None and not np.isfinite(np.frombuffer(content, "<f4")).all():
        return "expected finite values, got others"
    return None


def add_gram(total: "NDArray[np.uint64]", content: bytes) -> None:
    """Adds the result of a `gram` task to a matrix, [n, n, 2], in 128 bits."""
    import numpy as np

    part = np.frombuffer(content, "<u8").reshape(total.shape)
    low = total[..., 0] + part[..., 0]
    total[..., 1] += part[..., 1] + (low < part[..., 0])
    total[..., 0] = low


def pieces_of(content: bytes, names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[Piece]:
    """Yields the tensors in the result of a `combine` task."""
    import numpy as np

    values = np.frombuffer(content, "<f4")
    start = 0
    for name in names:
        yield Piece(name, 0, values[start : start + sizes[name]])
        start += sizes[name]


def _as_json(selection: Selection) -> dict[str, Any]:
    weighing, chosen = selection.weighing, selection.chosen
    return {
        "method": selection.rule.method.value,
        "f": selection.rule.f,
        "mixed": selection.rule.mixed,
        "kept": list(selection.kept),
        "weights": None if weighing is None else [float(one) for one in weighing.weights],
        "rest": 0.0 if weighing is None else float(weighing.rest),
        "chosen": None if chosen is None else base64.b64encode(chosen.tobytes()).decode(),
        "rows": selection.rows,
    }


def _selection(fields: Any) -> Selection:  # noqa: ANN401 - JSON
    import numpy as np

    kept = [int(row) for row in fields["kept"]]
    weighing = None
    if fields["weights"] is not None:
        weighing = Weighing(np.array(fields["weights"], np.float32), float(fields["rest"]))
    chosen = None
    if fields["chosen"] is not None:
        flat = np.frombuffer(base64.b64decode(fields["chosen"]), np.uint8)
        chosen = flat.reshape(len(kept), len(kept))
    rule = Rule(AggregationMethod(fields["method"]), int(fields["f"]), bool(fields["mixed"]))
    return Selection(rule, kept, {}, None, weighing, chosen, fields["rows"])
