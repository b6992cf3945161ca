"""Many requests answered at once: rows come and go between two tokens (continuous batching).

    batcher = policy.batcher(rows=16, tokens=4096)
    batcher.add_adapter("alice", adapter)
    number = batcher.add(Request(ids, Sampling(), key=0, adapter="alice"))
    while batcher.busy:
        for event in batcher.step():
            ...

A batcher belongs to one thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal, TypeAlias

from zoo.backends.sampling import Sampling, Scored, TokenEvent, check_rows
from zoo.backends.shaping import BlockedError, top_tokens
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy

Factors: TypeAlias = "Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]"
"""A [r, in] and B [r, out] of an adapter, its scale in B, by the layers of the loaded model."""


@dataclass(frozen=True, eq=False)
class Signs:
    """What is added to the matrix of a layer: plus or minus a scale, one bit a weight.

    Attributes:
        bits: uint8 [out, ceil(in / 8)], as `zoo.core.pack_signs` returns them.
        scales: float32 [out], [in] or [1].
        scale: what one of the scales is shared by: an output, an input or all.
        mask: in the shape of the bits; 0 where nothing is added.
    """

    bits: "NDArray[np.uint8]"
    scales: "NDArray[np.float32]"
    scale: Literal["row", "column", "matrix"] = "row"
    mask: "NDArray[np.uint8] | None" = None


Change: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.float32]] | Signs | NDArray[np.float32]"
"""Factors A [r, in] and B [r, out], signs, or a vector that is added to a parameter."""

Adapter: TypeAlias = Mapping[str, Change]
"""Factors and signs by the layers of the loaded model, vectors by its parameters.

Signs of the input embeddings change the head too where both are the same matrix.
"""


def adapter_bytes(adapter: Adapter) -> int:
    """Returns the bytes of an adapter's arrays."""
    return sum(_change_bytes(change) for change in adapter.values())


def _change_bytes(change: Change) -> int:
    if isinstance(change, Signs):
        masked = 0 if change.mask is None else change.mask.nbytes
        return change.bits.nbytes + change.scales.nbytes + masked
    if isinstance(change, tuple):
        return sum(factor.nbytes for factor in change)
    return change.nbytes


FAILED = "failed"
"""The `finish` of a row whose numbers overflowed: its adapter is broken; the token says nothing."""

MOST_SCORED = 1024
"""The longest prompt whose tokens are scored where the logits of all are in memory at once."""

BLOCKED = "blocked"
"""The `finish` of a row whose constraint allowed no further token; the token says nothing."""


@dataclass(frozen=True)
class Request:
    """A prompt to continue.

    Attributes:
        ids: the tokens of the prompt.
        sampling: how tokens are drawn, and where the answer ends.
        key: the seed of its random stream.
        adapter: the name of the adapter that answers; None for the base.
        scores_prompt: whether the prompt's tokens are scored, see `TokenEvent.prompt`.
    """

    ids: tuple[int, ...]
    sampling: Sampling
    key: int = 0
    adapter: str | None = None
    scores_prompt: bool = False


class Batcher(ABC):
    """Answers requests of one base, each with its own adapter.

    An answer is that of `Policy.stream` with the same key and weights, except for the rounding of
    sums: it does not depend on the other rows.
    """

    @abstractmethod
    def add_adapter(self, name: str, adapter: Adapter) -> None:
        """Makes an adapter available, or replaces it for requests that are added from now on.

        Its arrays may be kept as they are: they are not to be changed afterwards.

        Raises:
            InputError: a layer or parameter is missing, is of a kind that rows cannot have of their
                own, or has another shape.
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
    def clear(self) -> None:
        """Ends all rows without further events; after `step` raised, nothing else may be called."""

    @abstractmethod
    def close(self) -> None:
        """Ends all rows without further events, and leaves the policy as it was."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether rows wait or are being answered."""

    @abstractmethod
    def step(self) -> list[TokenEvent]:
        """Reads some of the prompts that wait, or a token of each row; returns the new tokens.

        The last of a row has a `finish` as in `Rollout`, or `FAILED`, or `BLOCKED`.
        """


class OneByOne(Batcher):
    """A batcher of a policy whose rows cannot come and go: the base answers, one row at a time."""

    def __init__(self, policy: "Policy", *, tokens: int) -> None:
        self._policy, self._tokens = policy, tokens
        self._waiting: dict[int, Request] = {}
        self._stream: Iterator[TokenEvent] | None = None
        self._row = -1
        self._numbers = count()

    def add_adapter(self, name: str, adapter: Adapter) -> None:
        """Refuses the adapter."""
        del adapter
        raise InputError(
            f"adapter {name!r}: this model answers with one set of weights: its rows cannot have "
            "adapters of their own",
            hint="apply the adapter, and serve the folder that this writes: zoo-gym delta apply",
            code="backends.no_row_adapters",
        )

    def remove_adapter(self, name: str) -> None:
        """Raises KeyError: there are none."""
        raise KeyError(name)

    def add(self, request: Request) -> int:
        """Queues a request; see `Batcher.add`."""
        if request.adapter is not None:
            raise KeyError(request.adapter)
        check_rows([request.ids], request.sampling, [request.key])
        check_length(request, self._tokens)
        if request.scores_prompt and len(request.ids) > MOST_SCORED:
            raise ValueError(
                f"prompt: expected at most {MOST_SCORED} tokens to score with this model, "
                f"got {len(request.ids)}"
            )
        number = next(self._numbers)
        self._waiting[number] = request
        return number

    def cancel(self, row: int) -> None:
        """Ends a row; see `Batcher.cancel`."""
        self._waiting.pop(row, None)
        if row == self._row:
            self._stream = None

    @property
    def busy(self) -> bool:
        """Whether rows wait or are being answered."""
        return bool(self._waiting) or self._stream is not None

    def step(self) -> list[TokenEvent]:
        """Reads the next token of the row that is being answered."""
        scores: tuple[Scored, ...] = ()
        if self._stream is None:
            if not self._waiting:
                return []
            self._row = next(iter(self._waiting))
            request = self._waiting.pop(self._row)
            self._stream = self._policy.stream([request.ids], request.sampling, keys=[request.key])
            if request.scores_prompt:
                scores = _scores(self._policy, request)
        try:
            event = next(self._stream)
        except BlockedError:
            event = TokenEvent(0, 0, 0.0, BLOCKED)
        if event.finish is not None:
            self._stream = None
        return [event._replace(row=self._row, prompt=scores)]

    def clear(self) -> None:
        """Ends all rows."""
        self._waiting.clear()
        self._stream = None

    def close(self) -> None:
        """Ends all rows."""
        self.clear()


def _scores(policy: "Policy", request: Request) -> tuple[Scored, ...]:
    """Returns the score of each token of a prompt but the first."""
    import numpy as np

    logits_TV = policy.logits(request.ids)[:-1]
    shifted_TV = logits_TV - logits_TV.max(-1, keepdims=True)
    logprobs_TV = shifted_TV - np.log(np.exp(shifted_TV).sum(-1, keepdims=True))
    count = request.sampling.top_logprobs
    tops = (top_tokens(logprobs_V, count) if count else () for logprobs_V in logprobs_TV)
    chosen = logprobs_TV[np.arange(len(logprobs_TV)), request.ids[1:]]
    return tuple(zip(chosen.tolist(), tops, strict=True))


def check_length(request: Request, tokens: int) -> None:
    """Refuses an answer for which there is no room.

    Raises:
        ValueError: prompt and answer have more than `tokens`.
    """
    room = tokens - len(request.ids)
    if request.sampling.max_new_tokens > room:
        raise ValueError(
            f"max_new_tokens: expected at most {room} with a prompt of {len(request.ids)} tokens, "
            f"got {request.sampling.max_new_tokens}"
        )
