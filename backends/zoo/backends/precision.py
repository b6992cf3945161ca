"""The number format of a run's frozen weights, as an engine chooses it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.memory import MemoryNeed


@dataclass(frozen=True)
class Workload:
    """The products of a planned run, by which a choice can pay or not.

    Attributes:
        parameters: of the base model.
        batch_tokens: of a micro-batch, on average.
        batches: micro-batches in all.
        need: what decides the run's memory; None for a model of another shape.
    """

    parameters: int
    batch_tokens: int
    batches: int
    need: "MemoryNeed | None"


@dataclass(frozen=True)
class Precision:
    """What the weights are stored and multiplied in, and why.

    Attributes:
        dtype: a name that `LoadSpec.dtype` takes, never `auto`.
        reason: why, in a few words.
        weight_bytes: of one base weight.
        hidden_bytes: of one value between two blocks.
        warning: a sentence about a format that was given and is slow here, else None.
    """

    dtype: str
    reason: str
    weight_bytes: int
    hidden_bytes: int
    warning: str | None = None

    def applied_to(self, need: "MemoryNeed") -> "MemoryNeed":
        """Returns the need of memory with values of these sizes."""
        return replace(need, weight_bytes=self.weight_bytes, hidden_bytes=self.hidden_bytes)
