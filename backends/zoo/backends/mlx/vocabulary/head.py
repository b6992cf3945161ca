"""The language head: float32 logits of a chunk of tokens, and the gradient of its input.

Legend: C tokens of a chunk, D hidden size, V vocabulary, R rank.

Logits are float32 whatever the type of the weight. A 16-bit head is widened block by block, and
each block is evaluated, so that no float32 copy of it exists. Nothing here is part of a traced
function: the gradient of the product is written out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn

from zoo.backends.mlx.layers.lora import LoraLinear
from zoo.backends.mlx.layers.state import PassState

CHUNK_TOKENS = 128
"""The number of tokens whose logits exist at once."""

VOCABULARY_BLOCK = 16_384
"""The number of rows of a 16-bit head that are widened to float32 at once."""

CAP, DIVISOR, FACTOR = "final_logit_softcapping", "logits_scaling", "logit_scale"
"""Config keys for a cap on logits, a divisor (Granite) and a factor (Cohere) of them."""


@dataclass(frozen=True)
class Head:
    """A model's output layer, and the transformations of its logits.

    Attributes:
        layer: `nn.Linear`, `nn.Embedding`, their quantised forms, or `LoraLinear`.
        state: the state of the pass.
        softcap: `cap * tanh(logits / cap)` is applied, 0 for none.
        scale: the logits are multiplied by this, 1 for none.
    """

    layer: Any
    state: PassState
    softcap: float = 0.0
    scale: float = 1.0

    @property
    def base(self) -> Any:  # noqa: ANN401
        """The layer without an adapter."""
        return self.layer.base if isinstance(self.layer, LoraLinear) else self.layer

    @property
    def adapter(self) -> LoraLinear | None:
        """The adapter, if there is one and the pass uses it."""
        adapted = isinstance(self.layer, LoraLinear) and self.state.adapted
        return self.layer if adapted else None

    @property
    def plain(self) -> bool:
        """Whether logits are just `hidden @ weight.T`."""
        return not isinstance(self.layer, LoraLinear) and not self.softcap and self.scale == 1.0

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return int(self.base.weight.shape[0])

    def product(self, hidden_CD: mx.array, part: int = 0) -> mx.array:
        """Returns the layer's output, float32 `[C, V]`, evaluated.

        Args:
            hidden_CD: the hidden states.
            part: the first token of the chunk, for dropout.
        """
        hidden = hidden_CD.astype(mx.float32)
        blocks = [hidden @ weight.T for _, weight in self._blocks()]
        out = mx.concatenate(blocks, -1) if len(blocks) > 1 else blocks[0]
        if self.adapter is not None:
            with self.state.chunk(part):
                out = out + self.adapter.addition(hidden)
        mx.eval(out)
        return out

    def transformed(self, product_CV: mx.array) -> mx.array:
        """Returns the logits of a product, differentiable."""
        logits = product_CV * self.scale if self.scale != 1.0 else product_CV
        return self.softcap * mx.tanh(logits / self.softcap) if self.softcap else logits

    def backward(self, grad_CV: mx.array) -> mx.array:
        """Returns `grad @ weight`, the base's part of the hidden states' gradient, evaluated."""
        out = mx.zeros((grad_CV.shape[0], 1))
        for part, weight in self._blocks():
            out = out + grad_CV[:, part] @ weight
            mx.eval(out)
        return out

    def adapter_backward(
        self, hidden_CD: mx.array, grad_CV: mx.array, part: int
    ) -> tuple[mx.array, dict[str, mx.array]]:
        """Returns the adapter's part of the hidden states' gradient, and its own gradients."""
        layer = self.adapter
        assert layer is not None
        factors = {"lora_A": layer.lora_A, "lora_B": layer.lora_B}

        def update(hidden: mx.array, down: mx.array, up: mx.array) -> mx.array:
            layer.lora_A, layer.lora_B = down, up
            return layer.addition(hidden)

        primals = [hidden_CD.astype(mx.float32), *factors.values()]
        with self.state.chunk(part):
            _, (dhidden, down, up) = mx.vjp(update, primals, [grad_CV])
        layer.lora_A, layer.lora_B = factors["lora_A"], factors["lora_B"]
        mx.eval(dhidden, down, up)
        return dhidden, {"lora_A": down, "lora_B": up}

    def rows(self, ids_N: mx.array) -> mx.array:
        """Returns the weights of these tokens, float32 `[N, D]`."""
        base = self.base
        if "scales" not in base:
            rows: mx.array = base.weight[ids_N]
            return rows.astype(mx.float32)
        values = mx.dequantize(
            base.weight[ids_N],
            base.scales[ids_N],
            base.biases[ids_N],
            group_size=base.group_size,
            bits=base.bits,
        )
        return values.astype(mx.float32)

    def _blocks(self) -> Iterator[tuple[slice, mx.array]]:
        """Yields the rows in float32: all at once if they already are, else block by block."""
        if self.base.weight.dtype == mx.float32:
            yield slice(None), self.base.weight
            return
        for start in range(0, self.tokens, VOCABULARY_BLOCK):
            part = slice(start, min(start + VOCABULARY_BLOCK, self.tokens))
            yield part, self.rows(mx.arange(part.start, part.stop))


def find_head(model: Any, config: Mapping[str, Any], state: PassState) -> Head:  # noqa: ANN401
    """Returns the head of a model: its output layer, or the embedding that is tied to it."""
    layer = model.get("lm_head", model.model.embed_tokens)
    divisor, factor = config.get(DIVISOR), config.get(FACTOR)
    scale = 1.0 / divisor if divisor else factor or 1.0
    return Head(layer, state, float(config.get(CAP) or 0.0), float(scale))


def is_tied(model: nn.Module) -> bool:
    """Returns whether the embedding is the output layer."""
    return "lm_head" not in model
