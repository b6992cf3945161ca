"""The peak learning rate by default: by the size of the model, the method and the optimizer.

The rules fit what was measured on zen-pico (0.8 M parameters, 2e-3 for LoRA and full weights) and
the usual values at 0.6 B and 4 B parameters.
"""

import math

from zoo.gym.config import TrainConfig

SGD_RATE = 0.5
"""How far a step moves all weights together, if gradients are clipped to norm 1. AdamW's rate moves
adapters of 0.1 M to 10 M weights 0.6 far."""

SHARES = {
    "lion": (1 / 3, "a third of adamw's: lion moves each weight by the whole rate"),
    "muon": (4.0, "four times adamw's: muon's steps are scaled to a fifth of the rate"),
}
"""The share of AdamW's rate that another optimizer has, with the reason."""


def chosen_rate(config: TrainConfig, parameters: int) -> tuple[float, str]:
    """Returns the peak learning rate of a run that gives none, and the reason.

    Args:
        config: the settings.
        parameters: those of the base model.
    """
    share, kind = config.rate_share, config.finetuning_type
    reason = f"{kind} on {parameters / 1e6:,.1f} M parameters"
    if config.optim in SHARES:
        part, why = SHARES[config.optim]
        share, reason = share * part, f"{reason}; {why}"
    if (ratio := config.loraplus_lr_ratio) is not None:
        share /= math.sqrt(ratio)
        reason = f"{reason}; divided by the root of loraplus_lr_ratio, which lora_B has"
    if config.optim == "sgd":
        clipped = f"sgd with gradients of norm {config.max_grad_norm:g} at most, any size"
        return float(f"{share * SGD_RATE:.1e}"), clipped
    return default_learning_rate(parameters, lora=config.trains_adapter, share=share), reason


def default_learning_rate(parameters: int, *, lora: bool, share: float = 1.0) -> float:
    """Returns AdamW's peak learning rate for a model size, rounded to two digits.

    2e-3 up to a million parameters; above, it falls with the size, more slowly for LoRA:
    2.1e-4 (LoRA) and 2.3e-5 (full) at 0.6 B, 1.1e-4 and 6.0e-6 at 4 B. Methods other than
    supervised fine-tuning take a share of it.
    """
    size = min(1.0, 1e6 / parameters)
    return float(f"{share * 2e-3 * size ** (0.35 if lora else 0.7):.1e}")
