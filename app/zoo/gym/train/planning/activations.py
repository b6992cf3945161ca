"""Keeps activations for the backward pass where memory allows it, in place of recomputing them.

Recomputing takes the time of another forward pass, a third more, and saves most of the memory of a
micro-batch. The choice is stored in the settings of a run, so that a resumed run repeats it.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.gym.config import extend_config
from zoo.gym.train.plan import Choice, Plan

if TYPE_CHECKING:
    from zoo.backends.base import Backend
    from zoo.backends.memory import MemoryNeed

KEY = "gradient_checkpointing"

MEMORY_SHARE = 0.5
"""Activations are kept if the run then needs at most this share of the free memory."""

MOST_BYTES = 6_000_000_000
"""The most activations that are kept: about those of 2,048 tokens in a model of 135 M."""


def keep_activations(
    plan: Plan, need: "MemoryNeed | None", engine: "Backend"
) -> "tuple[Plan, MemoryNeed | None]":
    """Returns the plan and its need without a chosen recomputation that memory makes unnecessary.

    Nothing changes if the setting was given, or if something else requires it; nor in a run of
    several processes, which must agree and may see different amounts of free memory.

    Args:
        plan: the plan, with its number format.
        need: what determines its memory; None for an unknown architecture.
        engine: the engine.
    """
    config = plan.config
    chosen = any(choice.key == KEY and choice.value for choice in plan.choices)
    fixed = config.stream_layers or config.activation_offloading or config.num_processes > 1
    if need is None or fixed or not chosen:
        return plan, need
    uncheckpointed = replace(need, checkpointing=False)
    estimate = engine.estimate_memory(uncheckpointed)
    fits = estimate.activations <= MOST_BYTES
    if not fits or estimate.total > MEMORY_SHARE * engine.free_bytes():
        return plan, need
    reason = f"faster; up to {estimate.activations / 1e9:.2g} GB of activations fit in memory"
    choices = [entry for entry in plan.choices if entry.key != KEY]
    choices.append(Choice(KEY, False, reason))  # noqa: FBT003 - the value of a setting
    config = extend_config(config, {KEY: False})
    return replace(plan, config=config, choices=tuple(choices)), uncheckpointed
