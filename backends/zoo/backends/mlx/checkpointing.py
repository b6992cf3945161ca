"""Gradient checkpointing: the activations of a block are computed again in the backward pass."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from zoo.backends.mlx.language import Slot


def checkpoint_activations(model: Any, slots: Mapping[str, Slot]) -> None:  # noqa: ANN401
    """Checkpoints each block of a model, with the trained parameters inside it.

    Args:
        model: mlx-lm's model, with its adapter.
        slots: all trained parameters.
    """
    for block in model.model.layers:
        inside = {id(module) for module in block.modules()}
        block_slots = [slot for slot in slots.values() if id(slot.module) in inside]
        kind = type(block)
        block.__class__ = type(kind.__name__, (kind,), {"__call__": _recomputed(kind, block_slots)})


def _recomputed(kind: Any, slots: list[Slot]) -> Any:  # noqa: ANN401
    """Returns the call of a block: its parameters are inputs, so that gradients reach them."""

    def call(block: Any, x: mx.array, *arguments: Any, **named: Any) -> mx.array:  # noqa: ANN401
        values = [slot.get() for slot in slots]

        def run(x: mx.array, values: list[mx.array]) -> mx.array:
            for slot, value in zip(slots, values, strict=True):
                slot.put(value)
            out: mx.array = kind.__call__(block, x, *arguments, **named)
            return out

        out = mx.checkpoint(run)(x, values)
        for slot, value in zip(slots, values, strict=True):
            slot.put(value)
        return out

    return call
