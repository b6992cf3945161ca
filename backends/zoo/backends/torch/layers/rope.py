"""Scales the rotary positions of a model by its config, which the result of a training keeps."""

import warnings
from pathlib import Path
from typing import Any

from torch import nn

from zoo.backends.rope import RopeSpec
from zoo.backends.torch.compat import whole_number
from zoo.core.errors import GymWarning, InputError


def scale_rope(folder: Path, config: Any, spec: RopeSpec) -> None:  # noqa: ANN401
    """Changes a model's config, in place, to read `spec.tokens` tokens.

    The other numbers of a kind are those of LLaMA-Factory, and else transformers' defaults.

    Raises:
        InputError: the model has no rotary positions, several kinds of them or scaled ones, or it
            reads as many tokens anyway.
    """
    rope: Any = getattr(config, "rope_parameters", None)
    positions = whole_number(config, "max_position_embeddings")
    what = f"{folder}: rope_scaling"
    if not isinstance(rope, dict) or not rope or positions is None:
        raise InputError(
            f"{what}: {config.model_type} has no rotary positions: expected some",
            code="torch.cannot_scale_rope",
        )
    if any(isinstance(value, dict) for value in rope.values()):
        kinds = f"{config.model_type} has several kinds of them"
        raise InputError(
            f"{what}: expected one kind of rotary positions: {kinds}",
            code="torch.cannot_scale_rope",
        )
    if (kind := rope.get("rope_type", "default")) != "default":
        raise InputError(
            f"{what}: expected unscaled positions, got those of kind {kind!r}",
            code="torch.cannot_scale_rope",
        )
    factor = -(-spec.tokens // positions)
    if factor < 2:
        raise InputError(
            f"{what}: expected a cutoff_len above the {positions:,} tokens that the model reads "
            f"without it, got {spec.tokens:,}",
            hint="without rope_scaling, nothing is lost",
            code="torch.cutoff_too_short",
        )
    scaled = {**rope, "rope_type": spec.kind, "factor": float(factor)}
    if spec.kind != "linear":
        scaled["original_max_position_embeddings"] = positions
    if spec.kind == "llama3":
        scaled |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config.rope_parameters = scaled
    config.max_position_embeddings = factor * positions


def warn_of_no_delta_of_positions(folder: Path, spec: RopeSpec) -> None:
    """Warns before a run that a delta of its result would be used with unscaled positions.

    Warns:
        GymWarning: always.
    """
    warnings.warn(
        f"{folder}: rope_scaling: no delta can be made of the result: it has positions scaled by "
        f"{spec.kind} in its config, and a delta only weights; share the whole folder of the model",
        GymWarning,
        stacklevel=3,
    )


def check_scaled(folder: Path, model: nn.Module, spec: RopeSpec) -> None:
    """Checks that a loaded model computes its positions as its config says.

    Raises:
        InputError: it does not.
    """
    kinds = {str(kind) for m in model.modules() if (kind := getattr(m, "rope_type", None))}
    if kinds != {spec.kind}:
        scalings = " and ".join(sorted(kinds)) or "none"
        raise InputError(
            f"{folder}: rope_scaling: {type(model).__name__} does not scale its positions: "
            f"expected {spec.kind}, got {scalings}",
            code="torch.cannot_scale_rope",
        )
