"""Refuses settings that the weights in the base's files contradict, in the engines' words."""

from collections.abc import Iterator
from pathlib import Path

from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import InputError
from zoo.gym.train.loading import lora_spec
from zoo.gym.train.planning.parts import block_of, ends
from zoo.models.adapters import ALL_LINEAR
from zoo.models.folder import read_config
from zoo.models.stored_weights import StoredWeight, stored_weights
from zoo.models.tied_head import HEAD

LOADED = {
    "f32": (("F32",), "float32"),
    "bf16": (("BF16",), "bfloat16"),
    "bf16-widened": (("BF16", "F16"), "bfloat16"),
}
"""The types in files, and the name of the loaded one, of each `dtype` that is given."""

LEAST_STORED = 0.9
"""The engine streams a model if at least this share of it is used as it is stored."""


def stored_faults(config: TrainConfig, folder: Path) -> Iterator[InputError]:
    """Yields why the weights of a base cannot be streamed or begun as the settings say.

    Args:
        config: the settings as given.
        folder: of the base.
    """
    streams = config.stream_layers and config.trains_adapter and config.dtype in LOADED
    begins = config.loftq_init and config.adapter_name_or_path is None
    if not streams and not begins:
        return
    weights = stored_weights(folder, read_config(folder))
    if streams:
        yield from _of_streaming(config.dtype, folder, list(weights.values()))
    if begins:
        yield from _of_loftq(lora_spec(config).targets, [*weights, HEAD])


def main_dtype(folder: Path) -> str:
    """Returns the type that a base is loaded in where it is used as it is stored."""
    weights = stored_weights(folder, read_config(folder)).values()
    wide = sum(weight.count for weight in weights if weight.dtype == "F32")
    return "f32" if wide > sum(weight.count for weight in weights) / 2 else "bf16"


def _of_streaming(dtype: str, folder: Path, weights: list[StoredWeight]) -> Iterator[InputError]:
    """Yields a type that the weights would have to be changed to, so none stays in its file."""
    stored, loaded = LOADED[dtype]
    total = sum(weight.count for weight in weights)
    share = sum(weight.count for weight in weights if weight.dtype in stored) / max(1, total)
    if share < LEAST_STORED:
        yield InputError(
            f"stream_layers: {folder}: expected weights that are used as they are stored, got "
            f"{share:.0%} of them: they are loaded as {loaded}",
            hint="give the type of the files as dtype: bf16 or f32; models that join or split "
            "tensors when they are loaded cannot be streamed",
            code="train.not_streamable",
        )


def _of_loftq(targets: tuple[str, ...], names: list[str]) -> Iterator[InputError]:
    """Yields layers outside of blocks: the embedding and the head stay as they are."""
    chosen = [name for name in names if any(ends(target, name) for target in targets)]
    if targets != (ALL_LINEAR,) and chosen and all(block_of(name) is None for name in chosen):
        yield InputError(
            "loftq_init: expected layers in 4 bits, got none of them among lora_target",
            hint="the embedding and the head are never quantised",
            code="train.no_quantized_layer",
        )
