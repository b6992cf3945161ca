"""The language head: from hidden states to float32 logits, one chunk of tokens at a time.

Legend: N scored tokens, C tokens of a chunk, D hidden size, V vocabulary.

Logits are float32 whatever the weights' type: rounding them to bf16 costs 0.03 nats per token. A
bf16 head is widened block by block, so no float32 copy of it ever exists.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.compat import MIXED_PRODUCTS
from zoo.backends.torch.vocabulary.adapted import in_use, rotated

SOFTCAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")
"""Config keys for a cap on logits: Gemma 2, RecurrentGemma, xLSTM."""

DIVISORS = ("logits_scaling", "logits_mup_width_multiplier")
"""Config keys for a divisor of logits: Granite, Inkling."""

CHUNK_TOKENS = 256
"""The number of tokens whose logits exist at once."""

VOCABULARY_BLOCK = 16_384
"""The number of rows of a bf16 head that are widened to float32 at once."""


def blocks(weight_VD: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yields the head's rows in float32: all at once if they already are, else block by block."""
    if weight_VD.dtype is torch.float32:
        yield slice(None), weight_VD
        return
    for start in range(0, weight_VD.shape[0], VOCABULARY_BLOCK):
        part = slice(start, min(start + VOCABULARY_BLOCK, weight_VD.shape[0]))
        yield part, weight_VD[part].float()


def logits_into(hidden_CD: Tensor, weight_VD: Tensor, out_CV: Tensor) -> Tensor:
    """Writes float32 logits into `out_CV` and returns it."""
    if weight_VD.is_cuda and weight_VD.dtype is not torch.float32 and MIXED_PRODUCTS:
        # The GPU forms exact products of 16-bit values and accumulates in float32.
        return torch.mm(
            hidden_CD.to(weight_VD.dtype), weight_VD.T, out_dtype=torch.float32, out=out_CV
        )
    hidden = hidden_CD.float()
    for part, weight in blocks(weight_VD):
        torch.mm(hidden, weight.T, out=out_CV[:, part])
    return out_CV


def gradient_into(grad_CV: Tensor, weight_VD: Tensor, out_CD: Tensor) -> Tensor:
    """Writes `grad_CV @ weight_VD`, the gradient of the hidden states, into float32 `out_CD`."""
    if weight_VD.dtype is torch.float32:
        return torch.mm(grad_CV, weight_VD, out=out_CD)
    out_CD.zero_()
    for part, weight in blocks(weight_VD):
        out_CD.addmm_(grad_CV[:, part], weight)
    return out_CD


class _Logits(torch.autograd.Function):
    """Float32 logits, with gradients computed in float32 for both factors."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        hidden_CD: Tensor,
        weight_VD: Tensor,
        sum_VD: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(hidden_CD, weight_VD)
        ctx.sum_VD = sum_VD
        out = hidden_CD.new_empty(hidden_CD.shape[0], weight_VD.shape[0], dtype=torch.float32)
        return logits_into(hidden_CD, weight_VD, out)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor | None, None]:  # noqa: ANN401
        hidden_CD, weight_VD = ctx.saved_tensors
        (grad_CV,) = grads
        out = torch.empty_like(hidden_CD, dtype=torch.float32)
        dhidden = gradient_into(grad_CV.contiguous(), weight_VD, out).to(hidden_CD.dtype)
        if not ctx.needs_input_grad[1]:
            return dhidden, None, None
        if ctx.sum_VD is not None:
            ctx.sum_VD.addmm_(grad_CV.T, hidden_CD.float())
            return dhidden, None, None
        return dhidden, (grad_CV.T @ hidden_CD.float()).to(weight_VD.dtype), None


@dataclass(frozen=True)
class Head:
    """A model's output layer, and the transformations of its logits.

    Attributes:
        module: the output layer; a plain `nn.Linear`, or one with an adapter on it.
        softcap: `cap * tanh(logits / cap)` is applied (Gemma 2), 0 for none.
        scale: the logits are multiplied by this (Cohere, Granite), 1 for none.
        sum_VD: where the gradient of a plain module's weight is added, float32; None leaves it to
            autograd, which needs as much memory again for each chunk.
    """

    module: nn.Module
    softcap: float = 0.0
    scale: float = 1.0
    sum_VD: Tensor | None = None

    @property
    def plain(self) -> bool:
        """Whether logits are just `hidden @ weight.T`."""
        module = self.module
        linear = isinstance(module, nn.Linear) and module.bias is None
        return linear and not self.softcap and self.scale == 1.0

    @property
    def weight_VD(self) -> Tensor:
        """The output layer's weight."""
        weight = self.module.weight
        assert isinstance(weight, Tensor)
        return weight

    def trained_parameters(self) -> list[nn.Parameter]:
        """Returns the trained parameters of the output layer."""
        return [p for p in self.module.parameters() if p.requires_grad]

    def logits(self, hidden_CD: Tensor, added_CV: Tensor | None = None) -> Tensor:
        """Returns float32 logits `[C, V]`, differentiable.

        Args:
            hidden_CD: the hidden states.
            added_CV: what is added to the product with the output layer.
        """
        module = self.module
        if isinstance(module, nn.Linear):
            logits = _linear(hidden_CD, module, self.sum_VD)
        elif self.weight_VD.dtype is torch.float32:
            logits = module(hidden_CD)
        else:
            logits = _with_adapter(hidden_CD, module)
        if added_CV is not None:
            logits = logits + added_CV
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits


def _linear(hidden_CD: Tensor, layer: nn.Linear, sum_VD: Tensor | None = None) -> Tensor:
    logits: Tensor = _Logits.apply(hidden_CD, layer.weight, sum_VD)  # type: ignore[no-untyped-call]
    return logits if layer.bias is None else logits + layer.bias.float()


def _with_adapter(hidden_CD: Tensor, layer: Any) -> Tensor:  # noqa: ANN401
    """Computes a 16-bit layer with an adapter in float32; peft would round to 16 bits."""
    if hasattr(layer, "oft_R") and not layer.disable_adapters:
        return _linear(rotated(hidden_CD.float(), layer), layer.get_base_layer())
    logits = _linear(hidden_CD, layer.get_base_layer())
    if layer.disable_adapters:
        return logits
    wide = hidden_CD.float()
    for name in layer.active_adapters:
        if name in layer.lora_variant:
            variant = layer.lora_variant[name]
            logits = variant.forward(layer, active_adapter=name, x=wide, result=logits)
            continue
        down, up = layer.lora_A[name], layer.lora_B[name]
        logits = logits + layer.scaling[name] * up(down(layer.lora_dropout[name](wide)))
    return logits


def find_head(model: nn.Module) -> Head:
    """Returns the head of a transformers causal language model."""
    config = getattr(model.config, "text_config", None) or model.config
    divisors = (getattr(config, name, None) for name in DIVISORS)
    scaling = next((divisor for divisor in divisors if divisor), None)
    scale = 1.0 / scaling if scaling else getattr(config, "logit_scale", None) or 1.0
    caps = (getattr(config, name, None) for name in SOFTCAPS)
    softcap = next((cap for cap in caps if cap), 0.0)
    module = in_use(model.get_output_embeddings())  # type: ignore[operator]
    return Head(module, float(softcap), float(scale))
