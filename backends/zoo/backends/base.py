"""The interface between training methods and engines: what a trainable policy does.

Legend: B rows, T positions, V vocabulary. Padding is on the right; `stats[b, t]` belongs to
`ids[b, t]`, so position 0 of every statistic is 0.

An engine is a subclass of `Backend` with a subclass of `Policy`. Both are abstract; `load_backend`
refuses an engine that lacks a method, with the name of the method.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from zoo.backends.answerer import Answerer
from zoo.backends.batch import Batch, SharedPrefix, StepInfo
from zoo.backends.machine.recall import Recall, measure_now
from zoo.backends.memory import MemoryEstimate, MemoryInfo, MemoryNeed, estimate_memory
from zoo.backends.objective import Array, ArrayNamespace, LossAndMetrics, Objective, Stat
from zoo.backends.optimizer_spec import (
    BlockSpec,
    OptimizerSpec,
    ParameterGroup,
    ProjectionSpec,
)
from zoo.backends.precision import Precision, Workload
from zoo.backends.ranks import ALONE, Place, Ranks, one_process_only
from zoo.backends.sampling import Prefix, Rollout, Sampling, TokenEvent
from zoo.backends.spec import FreezeSpec, LoadSpec, LoraSpec, QuantizationSpec
from zoo.core.errors import GymError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Parts: TypeAlias = tuple[tuple[str, ...], ...]
"""The tensors of a parameter: for each expert, those whose rows it has, in order; or one tensor."""

__all__ = [
    "INFERENCE",
    "Answerer",
    "Array",
    "ArrayNamespace",
    "Backend",
    "Batch",
    "BlockSpec",
    "FreezeSpec",
    "LoadSpec",
    "LoraSpec",
    "LossAndMetrics",
    "MemoryEstimate",
    "MemoryInfo",
    "MemoryNeed",
    "Objective",
    "OptimizerSpec",
    "ParameterGroup",
    "Parts",
    "Policy",
    "Precision",
    "Prefix",
    "ProjectionSpec",
    "QuantizationSpec",
    "Recall",
    "RewardModel",
    "Rollout",
    "Sampling",
    "Scorer",
    "SharedPrefix",
    "Stat",
    "StepInfo",
    "TokenEvent",
    "Workload",
    "measure_now",
    "only_tensor",
]


class Scorer(ABC):
    """A model that scores tokens: a policy, a reference, or another model as a teacher.

    Attributes:
        divided: whether each process has a share of its weights; every pass is then collective.
    """

    divided: bool = False

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
            batch: the rows to score.
            needs: the statistics.
            teacher: the model that `FORWARD_KL`, `REVERSE_KL` and `TOP1` compare with.
            key: scores with the same dropout as `accumulate` with this key; None scores without.
        """

    @abstractmethod
    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the logits after each id, float32 `[T, V]`; for a few ids, to compare models.

        Of a policy that becomes a reward model they are the terms of the score after each id,
        one for each hidden unit, `[T, D]`.
        """


class Policy(Scorer, Answerer):
    """A causal language model that can be scored, trained and sampled.

    *Collective* methods are called by every process of a distributed run.

    Attributes:
        ranks: the processes that train it, each with all of its weights.
    """

    ranks: Ranks = ALONE

    @abstractmethod
    def parameter_count(self) -> int:
        """Returns the number of parameters of the base model, tied ones once."""

    @abstractmethod
    def accumulate(
        self, objective: Objective, batch: Batch, *, key: int, teacher: "Scorer | None" = None
    ) -> dict[str, float]:
        """Adds the gradient of `objective` on `batch`; returns `loss` and metrics. Collective.

        Args:
            objective: the loss to minimise.
            batch: a micro-batch of the window.
            key: the random seed of this pass (dropout), so that a resumed run repeats it.
            teacher: the model whose distribution `FORWARD_KL` and `REVERSE_KL` compare with.
        """

    @abstractmethod
    def differentiate(
        self,
        objective: Objective,
        stats: "Mapping[Stat, NDArray[np.float32]]",
        arrays: Mapping[str, Any],
    ) -> "tuple[dict[str, float], dict[Stat, NDArray[np.float32]]]":
        """Returns `loss` and metrics of a window, and the loss's derivative by each statistic.

        Args:
            objective: a coupled objective.
            stats: the statistics of the window's rows, float32 `[B, T]`.
            arrays: `mask`, `lengths`, and the window's extras and constants.
        """

    @abstractmethod
    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Sums the gradient over `ranks`, clips it, takes a step, clears it. Collective."""

    @abstractmethod
    def reference(self) -> "AbstractContextManager[Scorer]":
        """Returns the model as it was before training, valid inside the block.

        With an adapter it is this policy with the adapter disabled, which takes no memory. In full
        training it is a frozen copy, loaded from the base's folder.
        """

    def notes(self, *, sampling: bool = True, prefix: bool = True) -> tuple[str, ...]:
        """Returns sentences about computation that this model cannot save, and its optimizer.

        Answers and gradients are the same with the computation and without; only the time differs.
        Of the optimizer they say which tensors another one steps.

        Args:
            sampling: whether answers are sampled; False for updates alone.
            prefix: whether rows have common prompts, which could be computed once.
        """
        del sampling, prefix
        return ()

    def packs(self, longest: int) -> bool:
        """Returns whether batches are computed without padding.

        Args:
            longest: the tokens of the longest row.
        """
        del longest
        return False

    @abstractmethod
    def gradients(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the gradient accumulated since the last step, by canonical name."""

    @abstractmethod
    def send_gradients(self, receive: "Callable[[str, NDArray[np.float32]], None]") -> None:
        """Passes on each parameter's gradient as soon as a pass has it, and frees it.

        From then on `accumulate` keeps no gradient, so that one parameter's is in memory at a time
        if the engine can, and `optimizer_step` has nothing to do.

        Args:
            receive: called with the name and the gradient of one pass; it may keep neither.

        Raises:
            ValueError: they are passed on already, or another process has a share of them.
        """

    def compute_weights(
        self,
        weights: "Callable[[str], NDArray[np.float32] | None]",
        receive: "Callable[[str, NDArray[np.float32]], None]",
    ) -> frozenset[str]:
        """Computes the weights of linear layers when they are used, and keeps none of them.

        The policy was loaded for inference, with `stream_layers`. Every other parameter is trained,
        in float32, and may be assigned: those outside of linear layers, and of layers that a pass
        does not call. All gradients are passed on, as by `send_gradients`.

        Args:
            weights: returns a weight by its parameter's name, float32 in its shape; None for one
                that is as in the files. It is called in each forward and backward pass.
            receive: called with the name and the gradient of one pass; it may keep neither.

        Returns:
            the names of the parameters that are computed.

        Raises:
            ValueError: the policy is in training, or this engine cannot.
        """
        del weights, receive
        raise ValueError("compute_weights: expected a policy with stream_layers, on a CPU")

    @abstractmethod
    def assign(self, name: str, values: "NDArray[np.float32]") -> None:
        """Replaces one trained parameter, as `load_trained` does with all of them."""

    @abstractmethod
    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the trained parameters by canonical name, as float32 copies."""

    @abstractmethod
    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Restores values from `trained`; refuses other names or shapes."""

    def collected(self, *, optimizer: bool) -> AbstractContextManager[None]:
        """Gathers what the first process saves inside the block. Collective.

        Args:
            optimizer: the optimizer's state, too.
        """
        del optimizer
        return nullcontext()

    def reassemble(self) -> None:
        """Makes a divided policy whole, in the first process alone. Collective."""

    @abstractmethod
    def save_checkpoint(self, folder: Path) -> None:
        """Writes trained parameters and optimizer state as safetensors, inside `collected`."""

    @abstractmethod
    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit."""

    @abstractmethod
    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes a folder that peft (adapter) or transformers (full, reward model) loads.

        A reward model is a sequence classification model with one label, with the adapter merged,
        in float32. Its padding token is that of the tokenizer.

        Args:
            folder: the folder; created if missing.
            base: the base model's name, recorded in an adapter's config.
        """

    @abstractmethod
    def reopen(self, folder: Path) -> None:
        """Replaces the weights by those that `save_result` wrote to `folder`, for inference.

        The trained weights are freed first, so it takes no more memory than loading did. An adapter
        is applied to the base that is already loaded.

        Raises:
            InputError: the folder cannot be loaded.
        """

    @abstractmethod
    def memory(self) -> MemoryInfo:
        """Returns the peak memory so far."""


class RewardModel(ABC):
    """A model that gives one number to a row: a sequence classification model with one label."""

    @abstractmethod
    def score(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Returns the score of each row of token ids."""


def only_tensor(parts: Parts) -> str | None:
    """Returns the tensor of a parameter that is stored as it is, or None."""
    return parts[0][0] if sum(map(len, parts)) == 1 else None


INFERENCE = LoadSpec()
"""The base model only, without training."""


class Backend(ABC):
    """An engine that loads policies onto one device of this machine.

    Args:
        name: the name of the device: `cpu`, `cuda`, `mps` or `mlx`.
        recall: caches measurements of the machine; by default each process measures.
    """

    policy: ClassVar[type[Policy]]  # the class of what `load` returns
    pads: ClassVar[bool] = False  # whether rows are always computed with padding

    def __init__(self, name: str, recall: Recall = measure_now) -> None:
        self.name = name
        self.recall = recall

    @abstractmethod
    def load(self, folder: Path, spec: LoadSpec = INFERENCE) -> Policy:
        """Loads a Hugging Face model folder (safetensors only) as a policy.

        Raises:
            InputError: the folder contains no readable safetensors model, or the spec is
                contradictory.
        """

    @abstractmethod
    def load_reward_model(self, folder: Path) -> RewardModel:
        """Loads a sequence classification folder with one label (safetensors only).

        Raises:
            InputError: the folder contains no such model.
        """

    def connect(self, place: Place) -> AbstractContextManager[Ranks]:
        """Connects this process with the others of a run, for the duration of a `with` block.

        Raises:
            InputError: this engine trains with one process.
            NotAvailableError: this process has no device of its own.
        """
        raise one_process_only(self.name, place.size)

    def divide(self, policy: Policy, ranks: Ranks) -> Policy:
        """Returns a policy, loaded with `LoadSpec.sharded`, of which each process has a share.

        Raises:
            InputError: this engine or model cannot be divided.
        """
        del policy, ranks
        raise InputError(
            f"sharding: expected none on {self.name}, got full",
            code="backends.setting_not_supported",
        )

    @abstractmethod
    def free_bytes(self) -> int:
        """Returns the memory that is currently free for a model on this device."""

    @abstractmethod
    def choose_precision(
        self,
        folder: Path,
        dtype: str = "auto",
        *,
        full: bool = False,
        work: Workload | None = None,
        streams: bool = False,
    ) -> Precision:
        """Chooses the number format in which the weights of a model are stored and multiplied.

        Args:
            folder: the model's folder.
            dtype: see `LoadSpec.dtype`; any value but `auto` is used as given.
            full: True if all weights are trained.
            work: the computation, if it is known; the choice may depend on it.
            streams: True if the weights stay in their files: only their own type can be chosen.
        """

    @abstractmethod
    def describe_precision(self) -> str:
        """Returns a sentence about the number formats that are fast on this machine."""

    @abstractmethod
    def parameter_parts(self, folder: Path) -> dict[str, Parts]:
        """Returns which tensors of the folder's files each parameter of the loaded model has.

        Parameters are in the model's order. One that transformers makes of tensors in other ways
        than those of `Parts`, or of none, has none. No weights are read.

        Raises:
            InputError: the model cannot be built.
        """

    def parameter_names(self, folder: Path) -> dict[str, str]:
        """Returns the names of the loaded model's parameters, by tensor name in the folder's files.

        Tensors that are joined, split or transposed on loading are left out.

        Raises:
            InputError: the model cannot be built.
        """
        parts = self.parameter_parts(folder)
        names = ((only_tensor(tensors), parameter) for parameter, tensors in parts.items())
        return {name: parameter for name, parameter in names if name is not None}

    @abstractmethod
    def faults(self, folder: Path, spec: LoadSpec = INFERENCE) -> list[GymError]:
        """Returns why this engine cannot load a folder; no weights are read."""

    def estimate_memory(self, need: MemoryNeed) -> MemoryEstimate:
        """Returns the expected peak memory of a training run."""
        return estimate_memory(need)
