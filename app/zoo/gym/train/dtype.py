"""Which number format a run's frozen weights get: chosen once, told with its reason, stored.

The engine says what the processor multiplies well. Where that is bf16 weights widened block by
block, float32 weights save the widening and cost twice the memory: they are taken where memory
allows and the run is long enough to pay. All weights that learn are float32 whatever is chosen.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config import extend_config
from zoo.gym.products import product_speeds
from zoo.gym.train.memory import Need, estimate
from zoo.gym.train.plan import Choice, Facts, Plan

if TYPE_CHECKING:
    from zoo.backends.torch.products import ProductSpeeds

WORTHWHILE_SHARE = 0.03
WORTHWHILE_S = 60.0
"""Float32 weights pay where they save this share of the products' time, and so many seconds."""

MEMORY_SHARE = 0.5
"""And where the run then needs at most this share of the free memory."""

PASSES = 1.5
"""Products and gradients of a micro-batch, in pairs: forward, forward again, backward."""


def with_dtype(plan: Plan, folder: Path, device: str) -> Plan:
    """Returns the plan with `dtype` chosen, unless it was given or all weights learn."""
    from zoo.backends.torch.load import choose_dtype
    from zoo.models import checkpoint_files

    config = plan.config
    if config.dtype != "auto" or config.finetuning_type == "full":
        return plan
    found = choose_dtype(checkpoint_files(folder), device, product_speeds)
    return _settled(plan, found.dtype, found.reason)


def with_float32(plan: Plan, facts: Facts, need: Need | None, free_bytes: int) -> Plan:
    """Returns the plan with float32 weights in place of widened ones where that pays.

    Args:
        plan: with a `dtype` that `with_dtype` chose.
        facts: what the plan was made from.
        need: of the run as planned; None for a model of another kind, which stays as it is.
        free_bytes: memory that is free now.
    """
    others = tuple(choice for choice in plan.choices if choice.key != "dtype")
    given = len(others) == len(plan.choices)
    if need is None or given or plan.config.dtype != "bf16-widened":
        return plan
    total = estimate(replace(need, weight_bytes=4)).total
    share, saved_s = widening(plan, facts, product_speeds())
    allowed = total <= MEMORY_SHARE * free_bytes
    if share < WORTHWHILE_SHARE or saved_s < WORTHWHILE_S or not allowed:
        return plan
    reason = f"widening bf16 weights would take {share:.0%} more time for products, {saved_s:.0f} s"
    return _settled(
        replace(plan, choices=others), "f32", f"{reason}; there is memory for float32 ones"
    )


def widening(plan: Plan, facts: Facts, speeds: "ProductSpeeds") -> tuple[float, float]:
    """Returns what widening adds: as a share of the products' time, and seconds of one thread."""
    from zoo.backends.torch.products import WIDTH

    rows = plan.config.per_device_train_batch_size or 1
    batches = plan.steps * (plan.config.gradient_accumulation_steps or 1)
    share = speeds.widening_share(round(rows * facts.tokens / facts.rows))
    one_s = max(0.0, speeds.widened_s - speeds.f32_s) * facts.parameters / WIDTH**2
    return share, PASSES * batches * one_s


def slow_products(plan: Plan, device: str) -> str | None:
    """Returns a warning where bf16 products were asked for on a processor that is slow at them."""
    config = plan.config
    if device != "cpu" or config.dtype != "bf16" or product_speeds().bf16_pays:
        return None
    return f"dtype bf16: {product_speeds().describe()}; bf16-widened takes no more memory"


def _settled(plan: Plan, dtype: str, reason: str) -> Plan:
    config = extend_config(plan.config, {"dtype": dtype})
    return replace(plan, config=config, choices=(*plan.choices, Choice("dtype", dtype, reason)))
