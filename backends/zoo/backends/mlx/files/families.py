"""The architectures that this engine loads, each compared with transformers in the tests.

mlx-lm has more of them. Some of those ignore settings of a config (a sliding window, a rotary base)
or compute other logits than transformers does, so an architecture enters this table with its test.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from zoo.core.errors import InputError

FAMILIES = {
    "cohere": "cohere",
    "ernie4_5": "ernie4_5",
    "gemma3_text": "gemma3_text",
    "granite": "granite",
    "helium": "helium",
    "llama": "llama",
    "ministral3": "ministral3",
    "mistral": "llama",
    "olmo2": "olmo2",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
}
"""The `model_type` of a config -> the module of mlx-lm."""

WINDOWED = frozenset({"gemma3_text"})
"""Those whose sliding windows mlx-lm computes as transformers does."""

ROTARY = frozenset({"default", "linear", "llama3", "yarn"})
"""The kinds of rotary scaling that are the same in both."""

HINT = "the torch engine loads it: backend=mps or backend=cpu"


def build(where: str, config: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Returns a model with random weights, which take no memory until they are read.

    Args:
        where: the file of the config, for messages.
        config: the settings of transformers, with their defaults.

    Raises:
        InputError: the architecture, or one of its settings, is not one of this engine.
    """
    kind = config["model_type"]
    if kind not in FAMILIES:
        names = ", ".join(sorted(FAMILIES))
        raise InputError(
            f"{where}: model_type: expected one of {names} on MLX, got {kind!r}",
            hint=HINT,
            code="mlx.model_not_supported",
        )
    settings = settings_of(where, config)
    module = import_module(f"mlx_lm.models.{FAMILIES[kind]}")
    try:
        model: Any = module.Model(module.ModelArgs.from_dict(settings))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"{where}: this model cannot be built on MLX: {error}",
            hint=HINT,
            code="mlx.model_not_supported",
        ) from error
    if config.get("tie_word_embeddings") and "lm_head" in model:
        model.sanitize({})  # some remove a tied head only when they see that the files lack it
    return model


def settings_of(where: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a config under the names that mlx-lm reads.

    Raises:
        InputError: it has sliding windows that mlx-lm ignores, or rotary scaling of another kind.
    """
    settings = dict(config)
    _refuse_windows(where, settings)
    _flatten_rotary(where, settings)
    return settings


def _refuse_windows(where: str, config: Mapping[str, Any]) -> None:
    """Refuses sliding windows that mlx-lm would ignore."""
    if config["model_type"] in WINDOWED or not config.get("sliding_window"):
        return
    layers = config.get("layer_types")
    if config.get("use_sliding_window") is False:
        return
    if layers and "sliding_attention" not in layers:
        return
    if config["sliding_window"] >= config.get("max_position_embeddings", 0):
        return
    raise InputError(
        f"{where}: sliding_window: expected none on MLX for {config['model_type']}, got "
        f"{config['sliding_window']}",
        hint=HINT,
        code="mlx.model_not_supported",
    )


def _flatten_rotary(where: str, config: dict[str, Any]) -> None:
    """Writes the rotary settings of transformers 5 under the names that all models here read.

    Raises:
        InputError: the scaling is of another kind.
    """
    rotary = config.get("rope_parameters")
    if not isinstance(rotary, dict) or "rope_theta" not in rotary:
        return
    kind = rotary.get("rope_type", "default")
    if kind not in ROTARY:
        raise InputError(
            f"{where}: rope_type: expected one of {', '.join(sorted(ROTARY))} on MLX, got {kind!r}",
            hint=HINT,
            code="mlx.model_not_supported",
        )
    config["rope_theta"] = rotary["rope_theta"]
    config["rope_scaling"] = None if kind == "default" else rotary
