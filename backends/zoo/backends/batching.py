"""Many requests answered at once: rows come and go between two tokens (continuous batching).

    batcher = policy.batcher(rows=16, tokens=4096)
    batcher.add_adapter("alice", factors)
    number = batcher.add(Request(ids, Sampling(), key=0, adapter="alice"))
    while batcher.busy:
        for event in batcher.step():
            ...

A batcher belongs to one thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zoo.backends.sampling import Sampling, TokenEvent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Factors: TypeAlias = "Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]"
"""A [r, in] and B [r, out] of an adapter, its scale in B, by the layers of the loaded model."""


@dataclass(frozen=True)
class Request:
    """A prompt to continue.

    Attributes:
        ids: the tokens of the prompt.
        sampling: how tokens are drawn, and where the answer ends.
        key: the seed of its random stream.
        adapter: the name of the adapter that answers; None for the base.
    """

    ids: tuple[int, ...]
    sampling: Sampling
    key: int = 0
    adapter: str | None = None


class Batcher(ABC):
    """Answers requests of one base, each with its own adapter.

    An answer is that of `Policy.stream` with the same key and weights, except for the rounding of
    sums: it does not depend on the other rows.
    """

    @abstractmethod
    def add_adapter(self, name: str, factors: Factors) -> None:
        """Makes an adapter available, or replaces it for requests that are added from now on.

        Raises:
            InputError: a layer is missing, or a factor has another shape.
        """

    @abstractmethod
    def remove_adapter(self, name: str) -> None:
        """Removes an adapter; rows that are being answered end with it.

        Raises:
            KeyError: there is none of this name.
        """

    @abstractmethod
    def add(self, request: Request) -> int:
        """Queues a request and returns its row number, which its events have.

        Raises:
            ValueError: the prompt is empty, has an unknown token, or is too long with its answer;
                or stop strings are without `decode`.
            KeyError: there is no such adapter.
        """

    @abstractmethod
    def cancel(self, row: int) -> None:
        """Ends a row without further events; one that has ended, or never was, is ignored."""

    @abstractmethod
    def close(self) -> None:
        """Ends all rows without further events, and leaves the policy as it was."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether rows wait or are being answered."""

    @abstractmethod
    def step(self) -> list[TokenEvent]:
        """Reads some of the prompts that wait, or a token of each row; returns the new tokens."""
