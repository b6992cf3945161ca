"""How a model is loaded as a policy: what learns, in which numbers, with which optimizer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class LoraSpec:
    """A low-rank adapter: `targets` are module name endings, or `all-linear` (without the head)."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)
    rslora: bool = False


@dataclass(frozen=True)
class ParameterGroup:
    """Trained parameters with a rate of their own.

    Attributes:
        suffix: the group has every trained parameter whose canonical name ends with it.
        lr_scale: the step's learning rate is multiplied by this.
        weight_decay: None is the optimizer's own.
    """

    suffix: str
    lr_scale: float = 1.0
    weight_decay: float | None = None


@dataclass(frozen=True)
class OptimizerSpec:
    """AdamW over the trained parameters.

    Attributes:
        weight_decay: on matrices only, where no group says otherwise.
        groups: each trained parameter belongs to the first group that it fits, or to none.
    """

    weight_decay: float = 0.0
    groups: tuple[ParameterGroup, ...] = ()


@dataclass(frozen=True)
class LoadSpec:
    """What a model folder is loaded as.

    Attributes:
        train: a `LoraSpec` for a new adapter, `"full"` for all weights, None for inference.
        adapter: a PEFT folder to put on the base, for inference; not together with `train`.
        dtype: `f32`, `bf16`, `bf16-widened` (bf16 weights, float32 products), or `auto`: as
            stored, float32 for small models, and on a CPU without bf16 arithmetic
            `bf16-widened`. Weights that are all trained are float32 whatever it says; on a
            GPU that can, `auto` and `bf16` then multiply in bf16, `f32` does not.
        attention: the kernel of attention: `auto` (the model's own choice), `sdpa` or `eager`.
        gradient_checkpointing: recompute activations in the backward pass.
        value_head: add a trainable linear head for `Stat.VALUES`.
        optimizer: of what learns; without effect on inference.
        seed: seed of the adapter's start.
    """

    train: LoraSpec | Literal["full"] | None = None
    adapter: Path | None = None
    dtype: str = "auto"
    attention: Literal["auto", "sdpa", "eager"] = "auto"
    gradient_checkpointing: bool = False
    value_head: bool = False
    optimizer: OptimizerSpec = OptimizerSpec()
    seed: int = 0

    @property
    def full(self) -> bool:
        """Whether all weights learn."""
        return self.train == "full"
