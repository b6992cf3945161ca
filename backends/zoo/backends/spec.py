"""How a model is loaded as a policy: trained parameters, number format and optimizer."""

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
    """Trained parameters with their own learning rate or weight decay.

    Attributes:
        suffix: the group contains every trained parameter whose canonical name ends with it.
        lr_scale: the factor for the learning rate.
        weight_decay: by default the optimizer's.
    """

    suffix: str
    lr_scale: float = 1.0
    weight_decay: float | None = None


@dataclass(frozen=True)
class OptimizerSpec:
    """AdamW over the trained parameters.

    Attributes:
        weight_decay: for matrices only, unless their group has its own.
        groups: each trained parameter belongs to the first group with a matching suffix, or none.
    """

    weight_decay: float = 0.0
    groups: tuple[ParameterGroup, ...] = ()


@dataclass(frozen=True)
class LoadSpec:
    """The settings for loading a model folder.

    Attributes:
        train: a `LoraSpec` for a new adapter, `"full"` for all weights, None for inference.
        adapter: a PEFT folder to apply to the base, for inference; not together with `train`.
        dtype: `f32`, `bf16`, `bf16-widened` (bf16 weights, float32 products), or `auto`: as
            stored, float32 for small models, and on a CPU without bf16 arithmetic
            `bf16-widened`. In full training weights are always float32; on a GPU with bf16, `auto`
            and `bf16` then multiply in bf16, `f32` does not.
        attention: the attention kernel: `auto` (the model's own choice), `sdpa` or `eager`.
        gradient_checkpointing: recompute activations in the backward pass.
        value_head: add a trainable linear head for `Stat.VALUES`.
        optimizer: the optimizer; no effect on inference.
        seed: the seed of the adapter's initialisation.
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
        """Whether all weights are trained."""
        return self.train == "full"
