"""Refuses to train for a private round on another base than the round's."""

from pathlib import Path

from zoo.gym.config.train import TrainConfig
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError
from zoo.models.adapters import WEIGHT


def check_fixed_base(config: TrainConfig, folder: Path) -> None:
    """Checks the base by the digest in the settings, which a round has set; reads its weights.

    Args:
        config: the settings.
        folder: of the base.

    Raises:
        InputError: a layer of `lora_target` is missing, or the weights of all of them together
            have another identity.
    """
    expected = config.base_identity
    if expected is None:
        return
    base = open_weights(folder)
    names = [f"{name.strip()}{WEIGHT}" for name in config.lora_target.split(",")]
    sentence = f"model_name_or_path={config.model_name_or_path}: expected the base of the round"
    hint = "zoo-gym round show names the base of a round"
    if missing := [name for name in names if name not in base.tensors]:
        raise InputError(
            f"{sentence}, got one without tensor {missing[0]!r}", hint=hint, code="train.wrong_base"
        )
    digest = identity(base, names)
    if digest != expected:
        raise InputError(
            f"{sentence} (identity {expected[:12]}), got another ({digest[:12]})",
            hint=hint,
            code="train.wrong_base",
        )
