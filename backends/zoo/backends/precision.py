"""The number format that an engine chooses for the weights of a run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.memory import MemoryNeed


@dataclass(frozen=True)
class Workload:
    """The amount of computation in a planned run.

    Attributes:
        parameters: the number of parameters of the base model.
        batch_tokens: the average number of tokens in a micro-batch.
        batches: the number of micro-batches in the run.
        need: the inputs of the memory formula; None for an unknown architecture.
    """

    parameters: int
    batch_tokens: int
    batches: int
    need: "MemoryNeed | None"


@dataclass(frozen=True)
class Precision:
    """The number format in which weights are stored and multiplied.

    Attributes:
        dtype: a value of `LoadSpec.dtype` other than `auto`.
        reason: the reason in a few words.
        weight_bytes: the bytes of a base weight.
        hidden_bytes: the bytes of a value between two blocks.
        warning: a sentence about a given format that is slow here, else None.
    """

    dtype: str
    reason: str
    weight_bytes: int
    hidden_bytes: int
    warning: str | None = None

    def applied_to(self, need: "MemoryNeed") -> "MemoryNeed":
        """Returns the memory need with weights and values of these sizes."""
        return replace(need, weight_bytes=self.weight_bytes, hidden_bytes=self.hidden_bytes)
