"""The number format of frozen weights on torch: as stored, 16 bits, or the fastest on the CPU.

If bf16 weights would be widened block by block, float32 weights avoid the widening but take twice
the memory: they are chosen if memory allows it and the run is long enough. Trained weights are
always float32.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from zoo.backends.memory import estimate_memory
from zoo.backends.precision import Precision, Workload
from zoo.backends.torch.numbers.products import WIDTH, ProductSpeeds
from zoo.models.folder import SMALL_PARAMETERS, count_parameters, read_object
from zoo.models.stored_weights import stored_weights

WIDENED = "bf16-widened"
"""bf16 weights with float32 products; see `widened`."""

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, WIDENED: torch.bfloat16}

WORTHWHILE_SHARE = 0.03
WORTHWHILE_S = 60.0
"""Float32 weights pay if they save this share of the products' time, and this many seconds."""

MEMORY_SHARE = 0.5
"""They also require that the run needs at most this share of the free memory."""

SMALL_MEMORY_SHARE = 0.25
"""A run that needs at most this share of the free memory takes them to save fewer seconds, too."""

PASSES = 1.5
"""Passes over the weights per micro-batch, in pairs: forward, recomputed forward, backward."""

Speeds = Callable[[], ProductSpeeds]


def choose_precision(
    folder: Path,
    device: str,
    speeds: Speeds,
    *,
    dtype: str = "auto",
    full: bool = False,
    work: Workload | None = None,
    free_bytes: int = 0,
    streams: bool = False,
) -> Precision:
    """Chooses the number format of a model's weights; see `Backend.choose_precision`.

    Args:
        folder: the model's folder.
        device: the device of the model.
        speeds: measures the processor's speeds; called only if they matter.
        dtype: `auto` or one of `DTYPES`.
        full: True if all weights are trained.
        work: the computation, if it is known.
        free_bytes: the memory that is currently free.
    """
    if full:
        return _precision("f32", "trained weights are float32")
    if dtype != "auto":
        warning = None
        if dtype == "bf16" and device == "cpu" and not speeds().bf16_pays:
            words = speeds().describe()
            warning = f"dtype bf16: {words}; bf16-widened takes no more memory"
        return _precision(dtype, "as given", warning)
    chosen = _by_file(folder, device, speeds, streams=streams)
    if chosen.dtype == WIDENED and work is not None and not streams:
        return _float32_if_it_pays(chosen, work, speeds(), free_bytes)
    return chosen


def _precision(dtype: str, reason: str, warning: str | None = None) -> Precision:
    weight_bytes = 4 if dtype == "f32" else 2
    return Precision(dtype, reason, weight_bytes, 2 if dtype == "bf16" else 4, warning)


def weight_type(folder: Path) -> str:
    """Returns the safetensors type of most stored weights, those in codes left out."""
    weights = stored_weights(folder, read_object(folder / "config.json")).values()
    sizes: dict[str, int] = {}
    for weight in [weight for weight in weights if not weight.code_bytes] or weights:
        sizes[weight.dtype] = sizes.get(weight.dtype, 0) + weight.count
    return max(sizes, key=lambda dtype: sizes[dtype])


def held_in(chosen: str, folder: Path) -> torch.dtype:
    """Returns the type of the weights in memory; widening accepts float16 as stored."""
    narrow = chosen == WIDENED and weight_type(folder) == "F16"
    return torch.float16 if narrow else DTYPES[chosen]


def _by_file(folder: Path, device: str, speeds: Speeds, *, streams: bool) -> Precision:
    """Chooses by the stored type and the speeds of the processor."""
    stored = weight_type(folder)
    if stored in {"F32", "F64"}:
        return _precision("f32", "as stored" if stored == "F32" else "rounded from float64")
    if streams and stored == "F16":
        return _precision(WIDENED, "as stored; each product widens a block to float32")
    if not streams and count_parameters(folder) < SMALL_PARAMETERS:
        return _precision("f32", "a small model: 16 bits would save little")
    rounded = "" if stored == "BF16" else "; rounded from float16"
    if device != "cpu":
        return _precision("bf16", f"16 bits save memory{rounded}")
    measured = speeds()
    if measured.bf16_pays:
        return _precision("bf16", f"{measured.describe()}{rounded}")
    reason = (
        f"{measured.describe()}: weights stay in 16 bits, each product widens a block to float32"
    )
    return _precision(WIDENED, reason)


def _float32_if_it_pays(
    widened: Precision, work: Workload, speeds: ProductSpeeds, free_bytes: int
) -> Precision:
    if work.need is None or work.need.linear_bits:  # unknown architecture, or already narrower
        return widened
    total = estimate_memory(replace(work.need, weight_bytes=4, hidden_bytes=4)).total
    share, saved_s = widening(work, speeds)
    allowed = MEMORY_SHARE if saved_s >= WORTHWHILE_S else SMALL_MEMORY_SHARE
    if share < WORTHWHILE_SHARE or total > allowed * free_bytes:
        return widened
    reason = f"widening bf16 weights would take {share:.0%} more time for products, {saved_s:.0f} s"
    return _precision("f32", f"{reason}; float32 weights fit in memory")


def widening(work: Workload, speeds: ProductSpeeds) -> tuple[float, float]:
    """Returns the time that widening adds: as a share of the products' time, and in seconds."""
    one_s = max(0.0, speeds.widened_s - speeds.f32_s) * work.parameters / WIDTH**2
    return speeds.widening_share(work.batch_tokens), PASSES * work.batches * one_s
