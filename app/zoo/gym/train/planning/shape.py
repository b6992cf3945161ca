"""The memory of a training of which only the model's shape is known: no file of it is read."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.train.loading import quantization_spec
from zoo.models import PICO

if TYPE_CHECKING:
    from zoo.backends.memory import MemoryNeed
    from zoo.models import Geometry

TOKENS = 2048
"""The tokens of a micro-batch for which that is estimated."""


def need_for(geometry: "Geometry", settings: Mapping[str, object]) -> "MemoryNeed":
    """Returns the need of a training with these settings on `TOKENS` tokens at a time."""
    from zoo.backends.memory import MemoryNeed

    needed: dict[str, object] = {"model_name_or_path": PICO, "dataset": "rows"}
    config = TrainConfig.model_validate({**needed, **settings})
    full, quantized = not config.trains_adapter, quantization_spec(config)
    return MemoryNeed(
        geometry=geometry,
        full=full,
        rank=config.lora_rank,
        blocks=config.freeze_trainable_layers if config.finetuning_type == "freeze" else None,
        tokens=TOKENS,
        evaluation_tokens=TOKENS,
        checkpointing=True,
        weight_bytes=4 if full else 2,
        hidden_bytes=4,
        streams=config.stream_layers,
        optimizer=load_method(config.stage).load_spec(config).optimizer,
        linear_bits=0.0 if quantized is None else quantized.bits_a_weight,
    )
