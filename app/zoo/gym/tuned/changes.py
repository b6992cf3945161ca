"""Reads what a fine-tune changes in each tensor of its base, as float32 or as factors."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.backends.batching import Signs
from zoo.gym.delta.changes import adapter_names, weight_names
from zoo.gym.delta.codecs.lowrank import decode_factors
from zoo.gym.delta.codecs.values import change_of
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.file.terms import LowRankTerm, RawTerm, SignTerm
from zoo.gym.delta.reading.adapter import Adapter, read_adapter, read_factors
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import (
    Weights,
    named_as,
    open_weights,
    read_float32,
    read_values,
    same_values,
    stored_bytes,
)
from zoo.gym.delta.rebuild import difference
from zoo.gym.tuned.source import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.batching import Change

CODED_FACTORS, FULL = "a delta of coded factors", "weights"
"""Kinds of fine-tunes, in words: a delta of form lowrank, and full weights."""


class Changes(ABC):
    """What a fine-tune changes.

    Attributes:
        source: its file or folder.
        kind: what it is, for messages.
        names: the base's tensors that it changes, sorted.
    """

    source: Path
    kind: str
    names: list[str]

    @abstractmethod
    def change(self, name: str) -> "NDArray[np.float32]":
        """Returns the change of one of `names`, in the tensor's shape.

        Raises:
            InputError: a value is not finite.
        """

    def factors(self, name: str) -> "tuple[NDArray[np.float32], NDArray[np.float32]] | None":
        """Returns A [r, in] and B [r, out] of a change that is their product, or None."""
        return None

    def decoded_factors(
        self, name: str
    ) -> "tuple[NDArray[np.float32], NDArray[np.float32]] | None":
        """Returns the factors also of a delta, as its codes have them."""
        return self.factors(name)

    def row_change(self, name: str) -> "Change | None":
        """Returns a change as a row of a batch can have it of its own, or None."""
        return self.decoded_factors(name)


class _DeltaChanges(Changes):
    def __init__(self, delta: Delta, base: Weights, *, verifies: bool) -> None:
        self.source, self._delta, self._base = delta.path, delta, base
        lowrank = delta.header.form == "lowrank"
        self.kind = CODED_FACTORS if lowrank else "a delta of coded weights"
        self._terms = {tensor.name: tensor for tensor in delta.header.tensors if tensor.terms}
        self.names = sorted(self._terms)
        if verifies:
            verify_base(delta, base)

    def decoded_factors(
        self, name: str
    ) -> "tuple[NDArray[np.float32], NDArray[np.float32]] | None":
        tensor = self._terms[name]
        (term, *more) = tensor.terms
        if more or not isinstance(term, LowRankTerm):
            return None
        return decode_factors(term, tensor_parts(self._delta, tensor), tensor.shape)

    def row_change(self, name: str) -> "Change | None":
        tensor = self._terms[name]
        (term, *more) = tensor.terms
        if more:
            return None
        match term:
            case LowRankTerm():
                return self.decoded_factors(name)
            case RawTerm() if len(tensor.shape) == 1:
                return cast("NDArray[np.float32]", tensor_parts(self._delta, tensor)["raw"])
            case SignTerm(planes=1, scale="row" | "column" | "matrix" as scale) if (
                len(tensor.shape) == 2
            ):
                parts = tensor_parts(self._delta, tensor)
                return Signs(parts["sign"], parts["scale"], scale, parts.get("mask"))
            case _:
                return None

    def change(self, name: str) -> "NDArray[np.float32]":
        tensor = self._terms[name]
        needs_base = any(term.kind == "sparse" for term in tensor.terms)
        return difference(
            self._delta, tensor, base=read_float32(self._base, name) if needs_base else None
        )


class _AdapterChanges(Changes):
    def __init__(self, adapter: Adapter, source: Path, base: Weights) -> None:
        self.source, self.kind, self._adapter = source, "an adapter", adapter
        self.names = adapter_names(adapter, base)

    def change(self, name: str) -> "NDArray[np.float32]":
        A, B = self.factors(name)
        change: NDArray[np.float32] = B.T @ A
        return change

    def factors(self, name: str) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
        return read_factors(self._adapter, name)


class _FullChanges(Changes):
    def __init__(self, tuned: Weights, base: Weights) -> None:
        self.source, self.kind, self._base = tuned.source, FULL, base
        self._tuned = named_as(tuned, base)
        names = weight_names(base, self._tuned)
        self.names = [name for name in names if not self._is_unchanged(name)]

    def _is_unchanged(self, name: str) -> bool:
        same_type = self._base.dtype(name) == self._tuned.dtype(name)
        return same_type and same_values(
            stored_bytes(self._base, name), stored_bytes(self._tuned, name)
        )

    def change(self, name: str) -> "NDArray[np.float32]":
        return change_of(read_values(self._base, name), read_values(self._tuned, name))


def read_changes(source: Source, base: Weights, *, verifies: bool = True) -> Changes:
    """Returns what a fine-tune changes in a base.

    Args:
        source: the fine-tune.
        base: the base's weights.
        verifies: whether it is verified that a delta belongs to the base, which hashes its weights.

    Raises:
        NotAvailableError: the source is missing.
        InputError: it does not belong to this base, or cannot be read as a change of weights.
    """
    if source.artifact == "delta":
        return _DeltaChanges(source.delta, base, verifies=verifies)
    if source.artifact == "adapter":
        return _AdapterChanges(read_adapter(source.path, base), source.path, base)
    return _FullChanges(open_weights(source.path), base)
