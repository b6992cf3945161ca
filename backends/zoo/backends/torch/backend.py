"""Loading a model folder as a policy on CPU, CUDA or MPS."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zoo.backends.base import LoraSpec
from zoo.backends.torch.adapter import add_lora, load_lora, tell_stray
from zoo.backends.torch.load import load_model
from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.older import checkpoint_activations
from zoo.backends.torch.policy import TorchPolicy
from zoo.core.errors import GuardError, InputError

if TYPE_CHECKING:
    from peft import PeftModel

HEAD_TOLERANCE = 0.05
"""Largest difference between our logits and the model's own, in units of their spread."""

BF16_STEP = 2.0**-7
"""How far rounding to bf16 may move a logit, in units of the largest one."""


class TorchBackend:
    """Torch on one device."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(
        self,
        folder: Path,
        *,
        train: LoraSpec | str | None = None,
        adapter: Path | None = None,
        dtype: str = "auto",
        gradient_checkpointing: bool = False,
        value_head: bool = False,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> TorchPolicy:
        """Loads a model folder as a policy; see `zoo.backends.base.Backend.load`."""
        if train is not None and adapter is not None:
            raise InputError(
                f"adapter: expected none where something is trained, got {adapter}: training on "
                "top of an adapter does not exist yet"
            )
        full = train == "full"
        tell_stray(folder, adapter)
        model = load_model(folder, dtype=dtype, full=full, device=self.name).to(self.name)
        peft_model: PeftModel | None = None
        model.requires_grad_(full)
        if isinstance(train, LoraSpec):
            peft_model = add_lora(model, train, seed=seed)
        elif adapter is not None:
            peft_model = load_lora(model, adapter)
        if gradient_checkpointing:
            checkpoint_activations(model)
        policy = TorchPolicy(
            model,
            peft_model=peft_model,
            value_head=_value_head(model, seed) if value_head else None,
            weight_decay=weight_decay,
            autocast=full and dtype != "f32" and mixes(self.name),
        )
        check_head(folder, policy.module)
        _check_trained(policy, train)
        return policy


def mixes(device: str) -> bool:
    """Returns whether full training on a device runs its blocks in bf16, beside float32 weights."""
    return device == "cuda" and torch.cuda.is_bf16_supported()


def _check_trained(policy: TorchPolicy, train: LoraSpec | str | None) -> None:
    """Makes sure that an adapter's training trains the adapter alone, and inference nothing."""
    if train == "full":
        return
    names = policy.optimizer.parameters
    base = [name for name in names if "lora_" not in name and not name.startswith("value_head")]
    if base or (names and train is None and not policy.module.value_head):
        raise GuardError(f"{(base or list(names))[0]}: expected frozen weights, got trained ones")


def _value_head(model: nn.Module, seed: int) -> nn.Linear:
    """A linear layer that starts at zero: every value is zero until it learns."""
    torch.manual_seed(seed)
    weight: Any = model.get_output_embeddings().weight  # type: ignore[operator]
    head = nn.Linear(weight.shape[1], 1, bias=False, device=weight.device, dtype=torch.float32)
    nn.init.zeros_(head.weight)
    return head


@torch.no_grad()
def check_head(folder: Path, module: LossModule) -> None:
    """Compares our logits with the model's own on a few tokens.

    An output layer that does something unknown to its logits would be trained on the wrong loss
    without a sign of it.

    Raises:
        InputError: they differ.
    """
    model: Any = module.model
    vocabulary = model.get_input_embeddings().weight.shape[0]
    ids_BT = (torch.arange(1, 9, device=model.device) * 7919 % vocabulary)[None]
    theirs_TV = model(input_ids=ids_BT, use_cache=False).logits[0].float()
    backbone = model.get_decoder()
    hidden_TD = backbone(input_ids=ids_BT, use_cache=False).last_hidden_state[0]
    ours_TV = module.head().logits(hidden_TD)
    difference = float((ours_TV - theirs_TV).abs().max())
    # A model in 16 bits rounds its own logits; ours are not rounded.
    rounding = 0.0 if hidden_TD.dtype is torch.float32 else BF16_STEP * float(theirs_TV.abs().max())
    if not difference <= HEAD_TOLERANCE * float(theirs_TV.std()) + rounding:
        raise InputError(
            f"{folder}: the output layer of {type(model).__name__} is unknown: "
            f"its logits differ from ours by {difference:.3g}"
        )
