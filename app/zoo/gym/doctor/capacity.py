"""Estimates which trainings fit in the free memory, with `zoo.backends.memory`."""

from dataclasses import dataclass

from zoo.backends.memory import MemoryNeed, estimate_memory
from zoo.gym.errors import DoesNotFitError
from zoo.gym.train.planning.memory import check_fit
from zoo.models import PICO, Geometry, registry

TOKENS = 2048
RANK = 16


@dataclass(frozen=True)
class Job:
    """A training with `TOKENS` tokens per micro-batch: the memory it needs, and whether it fits."""

    model: str
    method: str
    needs_bytes: int
    fits: bool


def jobs(device: str, free_bytes: int) -> tuple[Job, ...]:
    """Returns one job for each model of the family with LoRA, and one with full weights.

    Args:
        device: `cuda`, `mps` or `cpu`.
        free_bytes: free memory of that device.
    """
    needs = [
        (entry.alias, method, _need(entry.geometry, full=method == "full"))
        for entry in registry()
        if entry.alias != PICO
        for method in ("lora", "full")
    ]
    return tuple(_job(name, method, need, device, free_bytes) for name, method, need in needs)


def _need(geometry: Geometry, *, full: bool) -> MemoryNeed:
    return MemoryNeed(
        geometry=geometry,
        full=full,
        rank=RANK,
        tokens=TOKENS,
        evaluation_tokens=TOKENS,
        checkpointing=True,
        weight_bytes=4 if full else 2,
        hidden_bytes=4,
    )


def _job(name: str, method: str, need: MemoryNeed, device: str, free_bytes: int) -> Job:
    fit = estimate_memory(need)
    try:
        check_fit(fit, device, free_bytes)
    except DoesNotFitError:
        return Job(name, method, fit.total, fits=False)
    return Job(name, method, fit.total, fits=True)
