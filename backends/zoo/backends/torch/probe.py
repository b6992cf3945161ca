"""Checks of a loaded model on a few tokens, before training or inference.

Legend: B rows, N values, T positions, D hidden size, V vocabulary.

Scoring runs only the layers and computes the logits in chunks, without an attention mask (see
`loss`). A model that does more than that would be trained on a wrong loss.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.vocabulary.head import find_head
from zoo.core.errors import InputError
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from zoo.backends.torch.loss import LossModule

HEAD_TOLERANCE = 0.05
"""Largest difference between our logits and the model's, in standard deviations."""

BF16_STEP = 2.0**-7
"""How much rounding to bf16 may change a logit, relative to the largest one."""

LATER_TOKENS = {torch.float32: 1e-5}
LATER_TOKENS_16_BITS = 2e-2
"""How much a later token may change an earlier hidden state, relative to the largest one: experts
round differently in other batches. Measured: at most 4e-7 in causal models, at least 2e-4 in
untrained bidirectional ones, 5e-2 and more in trained ones.
"""

PROBE_TOKENS = 8


def find_backbone(model: nn.Module) -> nn.Module:
    """Returns the backbone: embedding and layers below the output layer.

    Raises:
        InputError: it cannot be identified.
    """
    named: Any = model
    backbone = named.get_decoder()
    if (
        isinstance(backbone, nn.Module)
        and backbone is not model
        and not isinstance(backbone, nn.Linear)
    ):
        return backbone
    # the lookup by name finds the model itself (Llama 4), or an output layer called `decoder`
    embedding = named.get_input_embeddings()
    for child in model.children():
        if child is not embedding and any(module is embedding for module in child.modules()):
            return child
    raise InputError(
        f"{type(model).__name__} cannot be used: its layers cannot be told from its output layer",
        code="backends.unknown_output_layer",
    )


@torch.no_grad()
def check_model(folder: Path, model: Any) -> None:  # noqa: ANN401
    """Compares our logits with the model's, and checks that no token depends on a later one.

    Raises:
        InputError: the logits differ, the model is not causal, or it cannot be run.
    """
    ids_BT = probe_ids(model)
    with refusals(f"{folder}: {type(model).__name__} cannot be used as a causal language model"):
        theirs_TV = model(input_ids=ids_BT, use_cache=False).logits[0].float()
        backbone: Any = find_backbone(model)
        hidden_TD = backbone(input_ids=ids_BT, use_cache=False).last_hidden_state[0]
        ours_TV = find_head(model).logits(hidden_TD)
        changed_BT = ids_BT.clone()
        changed_BT[:, -1] = ids_BT[:, 0]
        ahead_TD = backbone(input_ids=changed_BT, use_cache=False).last_hidden_state[0]
    if ours_TV.shape != theirs_TV.shape:
        raise InputError(
            f"{folder}: the output layer of {type(model).__name__} is unknown: expected logits for "
            f"{ours_TV.shape[-1]} tokens, got {theirs_TV.shape[-1]}",
            code="backends.unknown_output_layer",
        )
    _refuse_not_finite(folder, theirs_TV)
    if not same_logits(ours_TV, theirs_TV, hidden_TD.dtype):
        difference = float((ours_TV - theirs_TV).abs().max())
        raise InputError(
            f"{folder}: the output layer of {type(model).__name__} is unknown: "
            f"its logits differ from ours by {difference:.3g}",
            code="backends.unknown_output_layer",
        )
    moved = float((ahead_TD - hidden_TD)[:-1].abs().max())
    limit = LATER_TOKENS.get(hidden_TD.dtype, LATER_TOKENS_16_BITS)
    if not moved <= limit * float(hidden_TD.abs().max()):
        raise InputError(
            f"{folder}: {type(model).__name__} is not causal: expected tokens that see earlier "
            "ones only, got hidden states that a later token changes",
            hint="it is made to fill gaps, not to continue a text",
            code="backends.not_causal",
        )


@torch.no_grad()
def check_adapter(source: str, adapted: Any, module: "LossModule") -> None:  # noqa: ANN401
    """Compares our logits with those of peft with the same adapter.

    Raises:
        InputError: they differ, because the adapter acts outside of the layers, or it cannot be
            run.
    """
    ids_BT = probe_ids(module.model)
    with refusals(f"{source}: this adapter cannot be used on {type(module.model).__name__}"):
        theirs_TV = adapted(input_ids=ids_BT, use_cache=False).logits[0].float()
        hidden_TD = module.hidden(ids_BT)[0]
        ours_TV = module.head().logits(hidden_TD)
        _refuse_not_finite(source, theirs_TV)
        same = ours_TV.shape == theirs_TV.shape and same_logits(ours_TV, theirs_TV, hidden_TD.dtype)
    if not same:
        raise InputError(
            f"{source}: expected an adapter that acts inside the layers, got one whose logits "
            "are others with plain peft",
            code="torch.adapter_outside_layers",
        )


def _refuse_not_finite(source: Path | str, logits_TV: Tensor) -> None:
    bad_N = logits_TV[~(logits_TV < torch.inf)]  # some models exclude tokens by -inf
    if bad_N.numel():
        raise InputError(
            f"{source}: the answers of this model are not numbers: expected finite logits, got "
            f"{float(bad_N[0])}",
            hint="its weights are damaged, or too large for the type it computes in",
            code="backends.answers_not_finite",
        )


def check_gradient(module: "LossModule") -> None:
    """Checks that the logits depend on the trained weights, in training mode.

    Raises:
        InputError: no gradient reaches them (reversible layers such as Reformer's), or the model
            cannot be run in training mode.
    """
    name = type(module.model).__name__
    module.train()
    with refusals(f"{name} cannot be trained"), torch.enable_grad():
        hidden_BTD = module.hidden(probe_ids(module.model))
        # an adapter on the head only does not change the hidden states
        reached = hidden_BTD if hidden_BTD.requires_grad else module.head().logits(hidden_BTD[0])
        if reached.requires_grad:
            reached.float().sum().backward()  # type: ignore[no-untyped-call]
    module.eval()
    module.zero_grad(set_to_none=True)
    if not reached.requires_grad:
        raise InputError(
            f"{name} cannot be trained so: expected a gradient in the trained weights, got none",
            hint="finetuning_type: full may train it",
            code="torch.no_gradient",
        )


def probe_ids(model: Any) -> Tensor:  # noqa: ANN401
    """Returns a few token ids of a model's vocabulary, `[1, T]`, the last unlike the first."""
    vocabulary = model.get_input_embeddings().weight.shape[0]
    ids_T = torch.arange(1, PROBE_TOKENS + 1, device=model.device) * 7919
    return (ids_T % int(vocabulary))[None]


def same_logits(ours_TV: Tensor, theirs_TV: Tensor, dtype: torch.dtype) -> bool:
    """Returns whether logits computed in two ways agree, for a model that computes in `dtype`."""
    difference = float((ours_TV - theirs_TV).abs().max())
    # A model in 16 bits rounds its own logits; ours are not rounded.
    rounding = 0.0 if dtype is torch.float32 else BF16_STEP * float(theirs_TV.abs().max())
    return difference <= HEAD_TOLERANCE * float(theirs_TV.std()) + rounding
