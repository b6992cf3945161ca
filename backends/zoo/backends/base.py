"""The contract between the methods and the machine: what a trainable policy does.

Legend: B rows, T positions, V vocabulary. Padding is on the right; `stats[b, t]` belongs to
`ids[b, t]`, so position 0 of every statistic is 0.

An engine is a subclass of `Backend` that names its subclass of `Policy`. Both are abstract:
`load_backend` refuses an engine that lacks a method, by that method's name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from zoo.backends.memory import MemoryEstimate, MemoryNeed, estimate_memory
from zoo.backends.objective import Array, ArrayNamespace, LossAndMetrics, Objective, Stat
from zoo.backends.precision import Precision, Workload
from zoo.backends.sampling import Rollout, Sampling
from zoo.backends.spec import LoadSpec, LoraSpec, OptimizerSpec, ParameterGroup

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "INFERENCE",
    "Array",
    "ArrayNamespace",
    "Backend",
    "Batch",
    "LoadSpec",
    "LoraSpec",
    "LossAndMetrics",
    "MemoryEstimate",
    "MemoryInfo",
    "MemoryNeed",
    "Objective",
    "OptimizerSpec",
    "ParameterGroup",
    "Policy",
    "Precision",
    "Recall",
    "Rollout",
    "Sampling",
    "Scorer",
    "Stat",
    "StepInfo",
    "Workload",
    "measure_now",
]

Recall = Callable[[str, Mapping[str, str], Callable[[], Mapping[str, float]]], Mapping[str, float]]
"""Takes a name, what a measurement depends on, and the measurement; returns its figures, perhaps
those of an earlier one that depended on the same."""


def measure_now(
    name: str, key: Mapping[str, str], measure: Callable[[], Mapping[str, float]]
) -> Mapping[str, float]:
    """Measures without looking for an earlier result: the `Recall` that keeps nothing."""
    del name, key
    return measure()


@dataclass(frozen=True)
class Batch:
    """Rows of token ids with the positions to learn; host arrays, the backend moves them.

    Attributes:
        ids_BT: token ids, padded on the right with any valid id.
        lengths_B: the number of real tokens in each row.
        loss_mask_BT: True where a token is learned. Position 0 is never learned.
        extras: further arrays handed to the objective: `ref`, `advantages`, ...
        constants: the window's numbers that an objective divides by: `window_tokens`, ...
        teacher: the same rows as a teacher reads them, where its prompts are others; row by row it
            learns the same tokens. None is this batch itself.
    """

    ids_BT: "NDArray[np.int64]"
    lengths_B: "NDArray[np.int64]"
    loss_mask_BT: "NDArray[np.bool_]"
    extras: "Mapping[str, NDArray[Any]]" = field(default_factory=dict[str, Any])
    constants: Mapping[str, float] = field(default_factory=dict[str, float])
    teacher: "Batch | None" = None


@dataclass(frozen=True)
class StepInfo:
    """What one optimizer step did.

    Attributes:
        grad_norm: the norm of the gradient before clipping.
        skipped: True when the gradient was not finite and nothing was changed.
        changed: True when at least one trained value has moved, in this step or an earlier one.
    """

    grad_norm: float
    skipped: bool
    changed: bool


@dataclass(frozen=True)
class MemoryInfo:
    """Peak memory in bytes: of the process, and of the accelerator (0 without one)."""

    peak_host_bytes: int
    peak_device_bytes: int


class Scorer(ABC):
    """A model that scores tokens: a policy, a reference, or another model as a teacher."""

    @abstractmethod
    def score(
        self,
        batch: Batch,
        needs: frozenset[Stat],
        *,
        teacher: "Scorer | None" = None,
        key: int | None = None,
    ) -> "dict[Stat, NDArray[np.float32]]":
        """Returns each statistic as float32 `[B, T]`, zero where nothing is learned.

        Args:
            batch: what is scored.
            needs: the statistics.
            teacher: whose distribution the teacher's statistics are taken against.
            key: score as `accumulate` does with this key, dropout included; None is without.
        """

    @abstractmethod
    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the logits after each id, float32 `[T, V]`: for a few ids, to compare models."""


class Policy(Scorer):
    """A causal language model that can be scored, trained and sampled.

    *Collective* methods are called by every process of a distributed run.
    """

    @abstractmethod
    def parameter_count(self) -> int:
        """Returns the number of parameters of the base model, tied ones once."""

    @abstractmethod
    def accumulate(
        self, objective: Objective, batch: Batch, *, key: int, teacher: "Scorer | None" = None
    ) -> dict[str, float]:
        """Adds the gradient of `objective` on `batch`; returns `loss` and metrics. Collective.

        Args:
            objective: what is minimised.
            batch: a micro-batch of the window.
            key: seed of everything random in this pass (dropout), so that a resumed run repeats it.
            teacher: whose distribution the teacher's statistics are taken against.
        """

    @abstractmethod
    def differentiate(
        self,
        objective: Objective,
        stats: "Mapping[Stat, NDArray[np.float32]]",
        arrays: Mapping[str, Any],
    ) -> "tuple[dict[str, float], dict[Stat, NDArray[np.float32]]]":
        """Returns `loss` and metrics of a window, and the derivative of the loss by each statistic.

        Args:
            objective: a coupled one.
            stats: the statistics of the window's rows, float32 `[B, T]`.
            arrays: `mask` and `lengths`, the window's extras and constants.
        """

    @abstractmethod
    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips the gathered gradient, steps AdamW, and clears the gradient. Collective."""

    @abstractmethod
    def reference(self) -> "AbstractContextManager[Scorer]":
        """Returns the model as it was before training, for as long as the block lasts.

        With an adapter it is this policy with the adapter off, which takes no memory. Where all
        weights learn it is a frozen copy, loaded from the base's folder.
        """

    @abstractmethod
    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, *, keys: Sequence[int]
    ) -> list[Rollout]:
        """Continues each prompt; row i draws from a stream seeded by `keys[i]` alone."""

    @abstractmethod
    def gradients(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields what `accumulate` has gathered since the last step, by canonical name."""

    @abstractmethod
    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the trained parameters by canonical name, as float32 copies."""

    @abstractmethod
    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Puts values from `trained` back; refuses another set of names or shapes."""

    @abstractmethod
    def save_checkpoint(self, folder: Path) -> None:
        """Writes trained parameters and optimizer state as safetensors. Collective."""

    @abstractmethod
    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit. Collective."""

    @abstractmethod
    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes a folder that plain peft (adapter) or plain transformers (full) loads.

        Args:
            folder: created if absent.
            base: the base model's name, recorded in an adapter's config.
        """

    @abstractmethod
    def reopen(self, folder: Path) -> None:
        """Holds what `save_result` wrote to `folder` in place of its own weights, for inference.

        What was trained is freed first, so that this takes no more memory than loading did. An
        adapter is put on the base that is loaded already.

        Raises:
            InputError: the folder cannot be loaded.
        """

    @abstractmethod
    def memory(self) -> MemoryInfo:
        """Returns the peaks since the policy was loaded."""


INFERENCE = LoadSpec()
"""The base model alone; nothing learns."""


class Backend(ABC):
    """An engine that loads policies onto one device of this machine.

    Args:
        name: of the device: `cpu`, `cuda`, `mps` or `mlx`.
        recall: where measurements of the machine are kept; the default measures in each process.
    """

    policy: ClassVar[type[Policy]]
    """The class of the policies that `load` returns."""

    def __init__(self, name: str, recall: Recall = measure_now) -> None:
        self.name = name
        self.recall = recall

    @abstractmethod
    def load(self, folder: Path, spec: LoadSpec = INFERENCE) -> Policy:
        """Loads a Hugging Face model folder (safetensors only) as a policy.

        Raises:
            InputError: the folder holds no readable safetensors model, or the spec contradicts
                itself.
        """

    @abstractmethod
    def free_bytes(self) -> int:
        """Returns the memory that is free now where the model will be."""

    @abstractmethod
    def choose_precision(
        self,
        folder: Path,
        dtype: str = "auto",
        *,
        full: bool = False,
        work: Workload | None = None,
    ) -> Precision:
        """Chooses how the weights in a folder are stored and multiplied.

        Args:
            folder: the model's folder.
            dtype: see `LoadSpec.dtype`; what is given is taken.
            full: all weights learn.
            work: what will be computed, if that is known: it may decide.
        """

    @abstractmethod
    def describe_precision(self) -> str:
        """Returns a sentence about what this machine multiplies well."""

    @abstractmethod
    def parameter_names(self, folder: Path) -> dict[str, str]:
        """Returns the loaded model's parameter by the tensor of a folder's files that it is.

        Left out are tensors that are joined, split or transposed as they are read. No weight is
        read.

        Raises:
            InputError: the model cannot be built.
        """

    def estimate_memory(self, need: MemoryNeed) -> MemoryEstimate:
        """Returns the expected peak of a training run."""
        return estimate_memory(need)
