"""How a model is loaded as a policy: trained parameters, number format.

A value that no engine could follow is refused when the object is made.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zoo.backends.optimizer_spec import ELEMENTWISE, OptimizerSpec
from zoo.backends.requirements import are_names as _are_names
from zoo.backends.requirements import require as _require
from zoo.backends.requirements import require_rate as _require_rate
from zoo.backends.rope import RopeSpec

DTYPES = ("auto", "f32", "bf16", "bf16-widened")
INITS = ("default", "pissa", "loftq")
ATTENTION = ("auto", "sdpa", "eager")
PACKING = ("off", "preferred", "required")
BITS = (2, 3, 4, 6, 8)
DELTA_BITS = (1, 2, 4, 8)
KINDS = ("nf4", "fp4")
METHODS = ("auto", "bnb", "mlx")


@dataclass(frozen=True)
class LoraSpec:
    """A low-rank adapter: `targets` are module name endings, or `all-linear` (without the head).

    Attributes:
        rslora: scale by alpha / sqrt(rank) in place of alpha / rank (arXiv:2312.03732).
        dora: train the norm of each layer's outputs apart from their direction (arXiv:2402.09353).
        init: the start: `default` is without effect; `pissa` takes the largest singular values of
            each weight out of the base (arXiv:2404.02948); `loftq` is what quantising the base lost
            (arXiv:2310.08659).
        pissa_iter: the iterations of a randomised decomposition; -1 computes the exact one.
        whole: the ends of the names of modules that are trained whole, beside the adapter.
        fixed_a: the seed of a factor A that everybody derives and that is not trained
            (`zoo.models.fixed_factor`), 64 hexadecimal digits; B alone learns.
        delta_bits: the layers compute with the factors as a delta of 1, 2, 4 or 8 bits a value
            stores them, and such an adapter is saved; None: as they are.

    Raises:
        ValueError: a value is out of its range.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)
    rslora: bool = False
    dora: bool = False
    init: Literal["default", "pissa", "loftq"] = "default"
    pissa_iter: int = 16
    whole: tuple[str, ...] = ()
    fixed_a: str | None = None
    delta_bits: Literal[1, 2, 4, 8] | None = None

    def __post_init__(self) -> None:
        _require("rank", self.rank, "1 or more", valid=self.rank >= 1)
        positive = math.isfinite(self.alpha) and self.alpha > 0
        _require("alpha", self.alpha, "a number above 0", valid=positive)
        _require("dropout", self.dropout, "0 to below 1", valid=0 <= self.dropout < 1)
        _require("targets", self.targets, "a tuple of names", valid=_are_names(self.targets))
        _require("whole", self.whole, "a tuple of names", valid=type(self.whole) is tuple)
        _require("init", self.init, " or ".join(INITS), valid=self.init in INITS)
        _require("pissa_iter", self.pissa_iter, "-1 or more", valid=self.pissa_iter >= -1)
        apart = not self.dora or self.init == "default"
        _require("init", self.init, "default with dora", valid=apart)
        plain = self.init == "default" and not self.dora and not self.whole
        seed = self.fixed_a is None or (plain and re.fullmatch("[0-9a-f]{64}", self.fixed_a))
        _require("fixed_a", self.fixed_a, "a seed, with a plain LoRA alone", valid=bool(seed))
        bits, plain = self.delta_bits, plain and self.fixed_a is None
        coded = bits is None or (plain and bits in DELTA_BITS)
        _require("delta_bits", bits, "1, 2, 4 or 8, with a plain LoRA alone", valid=coded)


@dataclass(frozen=True)
class OftSpec:
    """A rotation of each layer's inputs, by blocks (OFT, arXiv:2306.07280; OFTv2, 2506.19847).

    It starts without effect. The blocks are orthogonal up to the fifth term of a series, as peft
    computes them.

    Attributes:
        rank: the number of blocks in a layer; 0 if `block_size` is given.
        block_size: the inputs that a block rotates; 0 if `rank` is given.
        dropout: the share of blocks that do not rotate, in training.
        targets: see `LoraSpec`.
        whole: see `LoraSpec`.

    Raises:
        ValueError: a value is out of its range, or not exactly one of both sizes is given.
    """

    rank: int = 0
    block_size: int = 32
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require("rank", self.rank, "0 or more", valid=self.rank >= 0)
        # a block of one input cannot rotate
        valid = self.block_size > 1 or self.block_size == 0
        _require("block_size", self.block_size, "0, or 2 or more", valid=valid)
        has_one = bool(self.rank) != bool(self.block_size)
        _require("block_size", self.block_size, "0 with a rank, and only then", valid=has_one)
        _require("dropout", self.dropout, "0 to below 1", valid=0 <= self.dropout < 1)
        _require("targets", self.targets, "a tuple of names", valid=_are_names(self.targets))
        _require("whole", self.whole, "a tuple of names", valid=type(self.whole) is tuple)


@dataclass(frozen=True)
class FreezeSpec:
    """Some blocks of the base are trained in place, in float32; everything else is frozen.

    Attributes:
        layers: the number of trained blocks: the last ones, or the first ones if it is negative.
        modules: the modules of these blocks that are trained, or `all`.
        extra: modules outside of blocks that are trained as well: `embed_tokens`, `lm_head`.

    Raises:
        ValueError: there is nothing to train.
    """

    layers: int = 2
    modules: tuple[str, ...] = ("all",)
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require("modules", self.modules, "a tuple of names", valid=_are_names(self.modules))
        is_tuple = type(self.extra) is tuple
        _require("extra", self.extra, "a tuple of names", valid=is_tuple)
        trained = bool(self.layers or self.extra)
        _require("layers", self.layers, "a number other than 0 without extra", valid=trained)


@dataclass(frozen=True)
class QuantizationSpec:
    """The linear layers of a frozen base in few bits; its embedding and head keep their values.

    Attributes:
        bits: of a code; each engine has some of `BITS`.
        kind: the codes of 4 bits: `nf4` (QLoRA, arXiv:2305.14314) or `fp4`.
        double: quantise the scales of 4-bit blocks to 8 bits.
        method: `bnb` is bitsandbytes, whose codes `kind` and `double` describe; `mlx` is MLX's
            affine codes; `auto` is the one of the engine.

    Raises:
        ValueError: a value is none of these.
    """

    bits: int = 4
    kind: str = "nf4"
    double: bool = True
    method: str = "auto"

    def __post_init__(self) -> None:
        _require("bits", self.bits, f"one of {BITS}", valid=self.bits in BITS)
        _require("kind", self.kind, " or ".join(KINDS), valid=self.kind in KINDS)
        is_known = self.method in METHODS
        _require("method", self.method, " or ".join(METHODS), valid=is_known)

    @property
    def bits_a_weight(self) -> float:
        """The bits of a weight with its share of the scales of its block.

        MLX has a scale and an offset in 16 bits for each group of 64 weights.
        """
        if self.method == "mlx":
            return self.bits + 2 * 16 / 64
        if self.bits == 8:  # one float32 scale for each row
            return 8.0
        scale = 8 + 32 / 256 if self.double else 32
        return self.bits + scale / 64


ADAMW = OptimizerSpec()

NewAdapter = LoraSpec | OftSpec
"""An adapter that is added."""

Train = NewAdapter | FreezeSpec | Literal["full", "adapter"]
"""What is trained."""


@dataclass(frozen=True)
class LoadSpec:
    """The settings for loading a model folder.

    Attributes:
        train: a `LoraSpec` or `OftSpec` for a new adapter, `"adapter"` to continue the one in
            `adapter`, a `FreezeSpec` for some weights in place, `"full"` for all weights, None for
            inference.
        adapter: a PEFT folder to apply to the base, for inference or to train it further: then the
            reference is the model with the adapter as it was.
        dtype: `f32`, `bf16`, `bf16-widened` (bf16 weights, float32 products), or `auto`: as
            stored, float32 for small models, and on a CPU without bf16 arithmetic
            `bf16-widened`. A model that is trained in place is always float32; on a GPU with bf16,
            `auto` and `bf16` then multiply in bf16, `f32` does not.
        quantization: quantises the linear layers of the base, for training an adapter or inference.
        rope: scales the positions of a model that is trained in place: the result's config says so.
        attention: the attention kernel: `auto` (the model's own choice), `sdpa` or `eager`.
        gradient_checkpointing: recompute activations in the backward pass.
        offload_activations: keep what is recomputed from in the memory of the host; CUDA only.
        liger: compute norms and gated layers with Liger's kernels; CUDA only.
        packing: compute rows of different lengths without padding, with the same result up to
            rounding: not at all, if the model can, or not without an error if it cannot.
        stream_layers: the base stays in its files; each layer's weights are in memory only while it
            is computed. Not for training that changes them.
        value_head: add a trainable linear head for `Stat.VALUES`.
        router_loss: the weight of the router loss of a mixture of experts, added to each
            objective in training; the router loss of a batch counts by its share of the window's
            learned tokens, and is reported as `router_loss`. 0 adds none.
        reward_model: the result is a reward model, whose score is that head; it needs one.
        optimizer: the optimizer; no effect on inference.
        neftune_noise_alpha: the strength of uniform noise on the embeddings in training
            (arXiv:2310.05914); 0 adds none. Scores and samples have none.
        seed: the seed of the adapter's initialisation.
        sharded: the policy will be divided among processes: it stays in the memory of the host.

    Raises:
        ValueError: `train`, `dtype`, `attention` or `packing` is none of these; `router_loss` is
            negative, or given for inference; a reward model has no value head; a quantised base is
            to be trained in place, or to become a reward model; activations are offloaded without
            recomputing the others; one in its files is to change; an
            adapter is trained with scaled positions, which its folder could not record.
    """

    train: Train | None = None
    adapter: Path | None = None
    dtype: str = "auto"
    quantization: QuantizationSpec | None = None
    rope: RopeSpec | None = None
    attention: Literal["auto", "sdpa", "eager"] = "auto"
    gradient_checkpointing: bool = False
    offload_activations: bool = False
    liger: bool = False
    packing: Literal["off", "preferred", "required"] = "off"
    stream_layers: bool = False
    value_head: bool = False
    router_loss: float = 0.0
    reward_model: bool = False
    optimizer: OptimizerSpec = ADAMW
    neftune_noise_alpha: float = 0.0
    seed: int = 0
    sharded: bool = False

    def __post_init__(self) -> None:
        kind = isinstance(self.train, LoraSpec | OftSpec | FreezeSpec)
        kind = kind or self.train in (None, "full", "adapter")
        expected = "a LoraSpec, an OftSpec, a FreezeSpec, 'full', 'adapter' or None"
        _require("train", self.train, expected, valid=kind)
        is_given = self.train != "adapter" or self.adapter is not None
        _require("adapter", self.adapter, "a folder to train further", valid=is_given)
        _require("dtype", self.dtype, " or ".join(DTYPES), valid=self.dtype in DTYPES)
        is_known = self.attention in ATTENTION
        _require("attention", self.attention, " or ".join(ATTENTION), valid=is_known)
        _require("packing", self.packing, " or ".join(PACKING), valid=self.packing in PACKING)
        _require_rate("router_loss", self.router_loss)
        _require_rate("neftune_noise_alpha", self.neftune_noise_alpha)
        trained = self.train is not None or not self.router_loss
        _require("router_loss", self.router_loss, "0 for inference", valid=trained)
        trains_whole = self.in_place or self.reward_model
        frozen = self.quantization is None or not trains_whole
        _require("quantization", self.quantization, "none if its weights change", valid=frozen)
        recorded = self.rope is None or self.in_place or self.train is None
        _require("rope", self.rope, "none for an adapter", valid=recorded)
        lost = isinstance(self.train, LoraSpec) and self.train.init == "loftq"
        coded = self.quantization is not None and self.quantization.bits == 4
        _require("quantization", self.quantization, "4 bits with loftq", valid=coded or not lost)
        recomputes = self.gradient_checkpointing or not self.offload_activations
        name = "gradient_checkpointing"
        _require(name, self.gradient_checkpointing, "True to offload", valid=recomputes)
        is_unchanged = not (self.stream_layers and (trains_whole or self.quantization))
        _require(
            "stream_layers", self.stream_layers, "False if the base changes", valid=is_unchanged
        )
        divisible = not (self.quantization or self.stream_layers or self.liger)
        divisible = divisible and not self.offload_activations
        divisible = divisible and self.optimizer.name in ELEMENTWISE
        divisible = divisible and getattr(self.train, "delta_bits", None) is None
        expected = "False with this base, kernel, optimizer or adapter"
        _require("sharded", self.sharded, expected, valid=divisible or not self.sharded)
        scores = self.value_head or not self.reward_model
        _require("value_head", self.value_head, "True for a reward model", valid=scores)

    @property
    def full(self) -> bool:
        """Whether all weights are trained."""
        return self.train == "full"

    @property
    def in_place(self) -> bool:
        """Whether weights of the base are trained, all or some of them, without an adapter."""
        return self.full or isinstance(self.train, FreezeSpec)
