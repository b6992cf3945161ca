"""The processes of a distributed run: where this one is among them, and what they tell each other.

Each process, a *rank*, has the whole model, reads the same rows in the same order and comes to the
same decisions. They divide the work on the rows among them: each takes some of the micro-batches of
a window. What it computed of them, all ranks receive; gradients are summed before the optimizer's
step. So each rank continues with the same numbers as a single process would.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zoo.core.errors import InputError, InterruptedRunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

FROM_ENVIRONMENT = "env://"
"""The meeting place that a launcher such as torchrun has set in the environment."""


@dataclass(frozen=True)
class Place:
    """Where a process is in a distributed run.

    Attributes:
        rank: its number, counted from 0; the first one alone writes the run folder.
        size: the number of processes.
        local_rank: its number among those of this machine, which selects its GPU.
        meeting: the file where they meet, or `FROM_ENVIRONMENT`.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    meeting: str = ""


class LostProcessError(InterruptedRunError):
    """Another process of the run is gone."""


class Ranks(ABC):
    """The processes of a run, connected. Every method is collective: all of them call it.

    Args:
        rank: the number of this process, counted from 0.
        size: the number of processes.

    A method raises `LostProcessError` if another process is gone.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @property
    def is_first(self) -> bool:
        """Whether this is the process that decides, and that writes the run folder."""
        return self.rank == 0

    def mine(self, count: int) -> range:
        """Returns which of `count` pieces of work are done by this process."""
        return range(self.rank, count, self.size)

    @abstractmethod
    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Returns what each process gave, by rank."""

    def gather(self, arrays: "Mapping[str, NDArray[Any]]") -> "list[dict[str, NDArray[Any]]]":
        """Returns the arrays of each process, by rank; names and sizes may differ."""
        from safetensors.numpy import load, save

        return [load(data) for data in self.gather_bytes(save(dict(arrays)))]

    def share(self, value: Any) -> Any:  # noqa: ANN401 - what JSON has
        """Returns the first process's value, which JSON can represent; the others' are not used."""
        data = json.dumps(value).encode() if self.is_first else b""
        return json.loads(self.gather_bytes(data)[0])

    def meet(self) -> None:
        """Waits until all processes are here."""
        self.gather_bytes(b"")

    def in_turn(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns here; the first process does it before the others."""
        if not self.is_first:
            self.meet()
            return work()
        result = work()
        self.meet()
        return result

    def join(self, by_index: "Mapping[int, Mapping[Any, NDArray[Any]]]") -> list[dict[Any, Any]]:
        """Returns the results of all pieces of work, in order, given those of `mine`.

        Args:
            by_index: by number of the piece, arrays by name.
        """
        named = {f"{n}/{key}": array for n, part in by_index.items() for key, array in part.items()}
        joined: dict[int, dict[Any, Any]] = {}
        for gathered in self.gather(named):
            for name, array in gathered.items():
                number, _, key = name.partition("/")
                joined.setdefault(int(number), {})[key] = array
        return [joined[number] for number in sorted(joined)]

    def total(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Returns the sums of numbers over all processes, by name, in the order of the ranks."""
        totals: dict[str, float] = {}
        for part in self.gather_bytes(json.dumps(dict(figures)).encode()):
            for name, value in cast("dict[str, float]", json.loads(part)).items():
                totals[name] = totals.get(name, 0.0) + value
        return totals


class _Alone(Ranks):
    """A process without others."""

    def gather_bytes(self, data: bytes) -> list[bytes]:
        return [data]

    def gather(self, arrays: "Mapping[str, NDArray[Any]]") -> "list[dict[str, NDArray[Any]]]":
        return [dict(arrays)]

    def share(self, value: Any) -> Any:  # noqa: ANN401
        return value

    def join(self, by_index: "Mapping[int, Mapping[Any, NDArray[Any]]]") -> list[dict[Any, Any]]:
        return [dict(by_index[number]) for number in sorted(by_index)]

    def total(self, figures: Mapping[str, float]) -> dict[str, float]:
        return dict(figures)


ALONE: Ranks = _Alone(0, 1)
"""A run of one process."""


PARALLEL = ("cuda", "cpu")
"""The devices on which a run may have several processes."""


def one_process_only(device: str, size: int) -> InputError:
    """Returns the error for a device on which a run has one process, not `size`."""
    return InputError(
        f"num_processes: expected 1 on {device}, got {size}",
        hint="several processes train with backend=cuda or backend=cpu",
        code="backends.one_process_only",
    )
