"""The contract between the methods and the machine: what a trainable policy does.

Legend: B rows, T positions, V vocabulary. Padding is on the right; `stats[b, t]` belongs to
`ids[b, t]`, so position 0 of every statistic is 0.

A *statistic* is a number per token that a policy computes chunk by chunk in float32, so that the
`[B, T, V]` logits never exist. An *objective* is a pure function of statistics and masks; it is
written once, over an array namespace, and runs on every backend.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Array = Any
"""An array of the backend: a torch.Tensor, an mx.array, or NumPy's in the tests."""


class Stat(StrEnum):
    """What a policy can say of a token."""

    LOGPROBS = "logprobs"
    ENTROPY = "entropy"
    LOG_SUM_SQ_PROBS = "log_sum_sq_probs"
    VALUES = "values"
    FORWARD_KL = "fkl"
    REVERSE_KL = "rkl"


class ArrayNamespace(Protocol):
    """The functions that an objective may use: Python array API names, and three more."""

    def exp(self, x: Array, /) -> Array:
        """Returns e to the x."""
        ...

    def expm1(self, x: Array, /) -> Array:
        """Returns e to the x, less 1, exact near 0."""
        ...

    def log(self, x: Array, /) -> Array:
        """Returns the natural logarithm."""
        ...

    def log1p(self, x: Array, /) -> Array:
        """Returns the logarithm of 1 + x, exact near 0."""
        ...

    def minimum(self, x: Array, y: Array, /) -> Array:
        """Returns the smaller of each pair."""
        ...

    def maximum(self, x: Array, y: Array, /) -> Array:
        """Returns the larger of each pair."""
        ...

    def clip(self, x: Array, low: float, high: float, /) -> Array:
        """Returns x held within [low, high]."""
        ...

    def where(self, condition: Array, x: Array, y: Array, /) -> Array:
        """Returns x where the condition holds, else y; both are differentiated."""
        ...

    def sum(self, x: Array, /, *, axis: int | None = None) -> Array:
        """Returns the sum over all values, or along one axis."""
        ...

    def mean(self, x: Array, /, *, axis: int | None = None) -> Array:
        """Returns the mean over all values, or along one axis."""
        ...

    def sort(self, x: Array, /, *, axis: int = -1) -> Array:
        """Returns the values in rising order."""
        ...

    def zeros_like(self, x: Array, /) -> Array:
        """Returns zeros in the shape of x."""
        ...

    def ones_like(self, x: Array, /) -> Array:
        """Returns ones in the shape of x."""
        ...

    def stop_gradient(self, x: Array, /) -> Array:
        """Returns x as a constant."""
        ...

    def log_sigmoid(self, x: Array, /) -> Array:
        """Returns log(1 / (1 + e to the -x))."""
        ...

    def sigmoid(self, x: Array, /) -> Array:
        """Returns 1 / (1 + e to the -x)."""
        ...


LossAndMetrics = tuple[Array, Mapping[str, Array]]
"""A loss, and numbers to report beside it by name. None of them is differentiated."""


class Objective(Protocol):
    """A loss: the sum over the rows of a batch, divided by the window's constants.

    Its metrics are sums of the same form (clipped tokens / the window's tokens), so that they add
    up over the micro-batches of a window as the loss does.

    `coupled` says that rows depend on each other (a sort, a mean over the batch). Such an
    objective is scored over the whole window first and replayed linearly, so that cutting a
    window into micro-batches never changes its meaning.
    """

    @property
    def needs(self) -> frozenset[Stat]:
        """The statistics that it reads."""
        ...

    @property
    def coupled(self) -> bool:
        """Whether its value depends on rows together, not one by one."""
        ...

    def __call__(
        self, xp: ArrayNamespace, stats: Mapping[Stat, Array], batch: Mapping[str, Array]
    ) -> LossAndMetrics:
        """Returns the loss and its metrics, scalars all.

        Args:
            xp: the functions that may be used.
            stats: each needed statistic, `[B, T]`.
            batch: `mask` and `lengths`, the batch's extras and the window's constants.
        """
        ...


@dataclass(frozen=True)
class Batch:
    """Rows of token ids with the positions to learn; host arrays, the backend moves them.

    Attributes:
        ids_BT: token ids, padded on the right with any valid id.
        lengths_B: the number of real tokens in each row.
        loss_mask_BT: True where a token is learned. Position 0 is never learned.
        extras: further arrays handed to the objective: `ref`, `advantages`, ...
        constants: the window's numbers that an objective divides by: `window_tokens`, ...
    """

    ids_BT: "NDArray[np.int64]"
    lengths_B: "NDArray[np.int64]"
    loss_mask_BT: "NDArray[np.bool_]"
    extras: "Mapping[str, NDArray[Any]]" = field(default_factory=dict[str, Any])
    constants: Mapping[str, float] = field(default_factory=dict[str, float])


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


LEAST_TEMPERATURE = 1e-6
"""Logits divided by less may leave the range of float32."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        max_new_tokens: tokens of an answer at most.
        temperature: what logits are divided by; 0 takes the most likely token.
        top_p: draw among the likeliest tokens that together have this probability; 1 is all.
        top_k: draw among so many of the likeliest tokens; 0 is all.
        stop_ids: the tokens that end an answer.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    stop_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuses settings under which no token could be drawn.

        Raises:
            ValueError: a setting is out of its range; it is named first.
        """
        _require_whole("max_new_tokens", self.max_new_tokens, 1)
        _require_whole("top_k", self.top_k, 0)
        heat = self.temperature
        if heat != 0 and not LEAST_TEMPERATURE <= heat < inf:
            raise ValueError(
                f"temperature: expected 0, or {LEAST_TEMPERATURE:g} or more, got {heat:g}"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected more than 0 and at most 1, got {self.top_p:g}")


def _require_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")


@dataclass(frozen=True)
class Rollout:
    """One answer: its token ids, the sampler's log-probability of each, and why it ended."""

    ids: list[int]
    logprobs: list[float]
    finish: str


@dataclass(frozen=True)
class LoraSpec:
    """A low-rank adapter: `targets` are module name endings, or `all-linear` (without the head)."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)
    rslora: bool = False


@dataclass(frozen=True)
class MemoryInfo:
    """Peak memory in bytes: of the process, and of the accelerator (0 without one)."""

    peak_host_bytes: int
    peak_device_bytes: int


class Policy(Protocol):
    """A causal language model that can be scored, trained and sampled.

    *Collective* methods are called by every process of a distributed run.
    """

    def parameter_count(self) -> int:
        """Returns the number of parameters of the base model, tied ones once."""
        ...

    def score(
        self,
        batch: Batch,
        needs: frozenset[Stat],
        *,
        teacher: "Policy | None" = None,
        key: int | None = None,
    ) -> "dict[Stat, NDArray[np.float32]]":
        """Returns each statistic as float32 `[B, T]`, zero where nothing is learned.

        Args:
            key: score as `accumulate` does with this key, dropout included; None is without.
        """
        ...

    def accumulate(
        self, objective: Objective, batch: Batch, *, key: int, teacher: "Policy | None" = None
    ) -> dict[str, float]:
        """Adds the gradient of `objective` on `batch`; returns `loss` and metrics. Collective.

        Args:
            objective: what is minimised.
            batch: a micro-batch of the window.
            key: seed of everything random in this pass (dropout), so that a resumed run repeats it.
            teacher: whose distribution the teacher's statistics are taken against.
        """
        ...

    def differentiate(
        self,
        objective: Objective,
        stats: "Mapping[Stat, NDArray[np.float32]]",
        arrays: Mapping[str, Any],
    ) -> "tuple[dict[str, float], dict[Stat, NDArray[np.float32]]]":
        """Returns `loss` and metrics of a whole window, and the loss's derivative by each statistic.

        Args:
            objective: a coupled one.
            stats: the statistics of the window's rows, float32 `[B, T]`.
            arrays: `mask` and `lengths`, the window's extras and constants.
        """
        ...

    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips the gathered gradient, steps AdamW, and clears the gradient. Collective."""
        ...

    def reference(self) -> "AbstractContextManager[Policy]":
        """Returns this policy with its adapter switched off, for as long as the block lasts."""
        ...

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the logits after each id, float32 `[T, V]`: for a few ids, to compare models."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, *, keys: Sequence[int]
    ) -> list[Rollout]:
        """Continues each prompt; row i draws from a stream seeded by `keys[i]` alone."""
        ...

    def gradients(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields what `accumulate` has gathered since the last step, by canonical name."""
        ...

    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the trained parameters by canonical name, as float32 copies."""
        ...

    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Puts values from `trained` back; refuses another set of names or shapes."""
        ...

    def save_checkpoint(self, folder: Path) -> None:
        """Writes trained parameters and optimizer state as safetensors. Collective."""
        ...

    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit. Collective."""
        ...

    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes a folder that plain peft (adapter) or plain transformers (full) loads.

        Args:
            folder: created if absent.
            base: the base model's name, recorded in an adapter's config.
        """
        ...

    def reopen(self, folder: Path) -> None:
        """Holds what `save_result` wrote to `folder` in place of its own weights, for inference.

        What was trained is freed first, so that this takes no more memory than loading did. An
        adapter is put on the base that is loaded already.

        Raises:
            InputError: the folder cannot be loaded.
        """
        ...

    def memory(self) -> MemoryInfo:
        """Returns the peaks since the policy was loaded."""
        ...


class Backend(Protocol):
    """An engine that can hold policies."""

    @property
    def name(self) -> str:
        """`cpu`, `cuda`, `mps` or `mlx`."""
        ...

    def load(
        self,
        folder: Path,
        *,
        train: "LoraSpec | str | None" = None,
        adapter: Path | None = None,
        dtype: str = "auto",
        gradient_checkpointing: bool = False,
        value_head: bool = False,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> Policy:
        """Loads a model folder (safetensors only) as a policy.

        Args:
            folder: a Hugging Face model folder.
            train: a `LoraSpec` for a new adapter, `"full"` for all weights, None for inference.
            adapter: a PEFT folder to put on the base, for inference; not beside `train`.
            dtype: `f32`, `bf16`, `bf16-widened` (bf16 weights, float32 products), or `auto`: as
                stored, float32 for small models, and on a CPU without bf16 arithmetic
                `bf16-widened`. Weights that are all trained are float32 whatever it says; on a
                GPU that can, `auto` and `bf16` then multiply in bf16, `f32` does not.
            gradient_checkpointing: recompute activations in the backward pass.
            value_head: add a trainable linear head for `Stat.VALUES`.
            weight_decay: AdamW's, on matrices only.
            seed: seed of the adapter's start.

        Raises:
            InputError: the folder holds no readable safetensors model, or `adapter` stands
                beside `train`.
        """
        ...
