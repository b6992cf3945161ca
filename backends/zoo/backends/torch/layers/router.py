"""The router loss of a mixture of experts, which is low if all experts get as many tokens.

Legend: B rows, T positions, N tokens, E experts, K experts per token.

Over the tokens of all layers, f_e is the mean number of times that a token chooses expert e, and
p_e the mean probability of e; the loss is E * sum over e of f_e * p_e (arXiv:2101.03961, eq. 4 to
6; over all layers at once and with K choices per token, as in transformers). Only p_e has a
gradient. Padding does not count.

It is the loss of a micro-batch, weighted by its share of the window's learned tokens. Left out:
losses of other forms, and models that balance their experts without a loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zoo.backends.torch.probe import find_backbone, probe_ids
from zoo.core.errors import InputError
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from zoo.backends.torch.loss import LossModule

TOLERANCE = {torch.float32: 1e-3}
TOLERANCE_16_BITS = 5e-2
"""Largest relative difference from the loss of transformers. It rounds the probabilities of 16-bit
logits to 16 bits: other experts may then be the most likely ones.
"""


@dataclass(frozen=True)
class RouterLoss:
    """The router loss of a model.

    Attributes:
        weight: the factor by which it is added to the objective.
        chosen: K, the number of experts that a token chooses.
    """

    weight: float
    chosen: int

    def __call__(self, layers: Sequence[Tensor], real_BT: Tensor) -> Tensor:
        """Returns the loss, a scalar without the weight.

        Args:
            layers: the logits of the router of each layer, `[B * T, E]`.
            real_BT: False for padding.
        """
        real_N = real_BT.flatten()
        experts = layers[0].shape[-1]
        chosen_E, probable_E = layers[0].new_zeros(2, experts, dtype=torch.float32)
        for logits_NE in layers:
            probs_NE = logits_NE.flatten(0, -2)[real_N].float().softmax(-1)
            of_tokens = probs_NE.topk(self.chosen, -1).indices.flatten()
            chosen_E = chosen_E + torch.bincount(of_tokens, minlength=experts)
            probable_E = probable_E + probs_NE.sum(0)
        tokens = real_N.sum() * len(layers)
        loss: Tensor = experts * (chosen_E / tokens * (probable_E / tokens)).sum()
        return loss


def find_router_loss(model: Any, weight: float) -> RouterLoss | None:  # noqa: ANN401
    """Returns the router loss of a model with a weight; None if the weight is 0.

    It is compared with the model's own on a few tokens.

    Raises:
        InputError: the model has no such loss.
    """
    if not weight:
        return None
    router_loss = RouterLoss(weight, chosen_experts(model))
    ids_BT = probe_ids(model)
    with refusals(f"the router loss of {type(model).__name__} cannot be computed"), torch.no_grad():
        out = model(input_ids=ids_BT, use_cache=False, output_router_logits=True)
        theirs = getattr(out, "aux_loss", None)
        if theirs is None:
            raise _no_router_loss(model)
        layers = _router_logits(model, ids_BT).router_logits
        ours = router_loss(layers, torch.ones_like(ids_BT) > 0)
    limit = TOLERANCE.get(layers[0].dtype, TOLERANCE_16_BITS)
    if not abs(float(ours) - float(theirs)) <= limit * abs(float(theirs)):
        raise InputError(
            f"moe_aux_loss_coef: the router loss of {type(model).__name__} is unknown: expected "
            f"{float(theirs):.6g} as in transformers, got {float(ours):.6g}",
            code="torch.unknown_router_loss",
        )
    return router_loss


def chosen_experts(model: Any) -> int:  # noqa: ANN401
    """Returns the number of experts that a token chooses; reads no weight.

    Raises:
        InputError: the model is no mixture of experts that reports its routers.
    """
    config = getattr(model.config, "text_config", None) or model.config
    chosen = getattr(config, "num_experts_per_tok", None)
    recorded = getattr(find_backbone(model), "_can_record_outputs", None) or {}
    if type(chosen) is not int or "router_logits" not in recorded:
        raise _no_router_loss(model)
    return chosen


def _no_router_loss(model: Any) -> InputError:  # noqa: ANN401
    return InputError(
        "moe_aux_loss_coef: expected a mixture of experts with a router loss, got "
        f"{type(model).__name__}",
        hint="moe_aux_loss_coef=0",
        code="torch.no_router_loss",
    )


def _router_logits(model: Any, ids_BT: Tensor) -> Any:  # noqa: ANN401
    """Returns the output of the backbone, with the logits of each layer's router."""
    return find_backbone(model)(input_ids=ids_BT, use_cache=False, output_router_logits=True)


def hidden_and_router_loss(
    module: "LossModule", ids_BT: Tensor, lengths_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the last hidden states, `[B, T, D]`, and the router loss of rows without padding."""
    assert module.router is not None
    with module.mixed(ids_BT.device):
        out = _router_logits(module.model, ids_BT)
    places_T = torch.arange(ids_BT.shape[1], device=ids_BT.device)
    real_BT = places_T < lengths_B[:, None]
    return out.last_hidden_state, module.router(out.router_logits, real_BT)


def check_router(module: "LossModule") -> None:
    """Checks that the router loss depends on the trained weights.

    Raises:
        InputError: none of them is in a router or below one.
    """
    if module.router is None:
        return
    ids_BT = probe_ids(module.model)
    with torch.enable_grad():
        _, loss = hidden_and_router_loss(module, ids_BT, torch.tensor([ids_BT.shape[1]]).to(ids_BT))
    if not loss.requires_grad:
        raise InputError(
            "moe_aux_loss_coef: has no effect: expected trained weights in or below a router, got "
            "none",
            hint="lora_target=all, or finetuning_type=full",
            code="torch.no_trained_router",
        )
