"""Estimates which trainings fit in the free memory, with the formula that runs use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zoo.backends.memory import MemoryNeed, estimate_memory
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import DoesNotFitError
from zoo.gym.train.planning.memory import check_fit
from zoo.gym.train.planning.shape import need_for
from zoo.models import PICO, Geometry, registry

RANK: int = TrainConfig.model_fields["lora_rank"].default


@dataclass(frozen=True)
class Way:
    """A way to train.

    Attributes:
        name: for people.
        settings: those of `zoo-gym train` that choose it.
        devices: the devices that have it; empty for all.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    devices: tuple[str, ...] = ()


def _full(optim: str) -> dict[str, object]:
    return {"finetuning_type": "full", "optim": optim}


WAYS = {
    "lora": Way("LoRA"),
    "qlora": Way("LoRA, 4-bit base", {"quantization_bit": 4}),
    "qlora_8bit": Way("LoRA, 8-bit base", {"quantization_bit": 8}),
    "streamed": Way("LoRA, base on disk", {"stream_layers": True}, ("cpu",)),
    "freeze": Way("two layers", {"finetuning_type": "freeze"}, ("cpu", "cuda", "mps")),
    "badam": Way("all, by BAdam", _full("badam"), ("cpu", "cuda", "mps")),
    "galore": Way("all, by GaLore", _full("galore"), ("cpu", "cuda", "mps")),
    "adamw_8bit": Way("all, 8-bit AdamW", _full("adamw_8bit"), ("cuda",)),
    "full": Way("all weights", {"finetuning_type": "full"}),
}
"""The ways that are estimated, by their name in JSON."""


@dataclass(frozen=True)
class Job:
    """A training with `TOKENS` tokens per micro-batch: the memory it needs, and whether it fits.

    Attributes:
        model: the model's name.
        method: a name in `WAYS`.
        settings: the settings that choose it.
        needs_bytes: the expected peak.
        fits: whether a run would start.
    """

    model: str
    method: str
    settings: Mapping[str, object]
    needs_bytes: int
    fits: bool


def jobs(device: str, free_bytes: int) -> tuple[Job, ...]:
    """Returns a job for each model of the family and each way that the device has.

    Args:
        device: `cuda`, `mlx`, `mps` or `cpu`.
        free_bytes: free memory of that device.
    """
    return tuple(
        job
        for entry in registry()
        if entry.alias != PICO
        for job in jobs_of(entry.alias, entry.geometry, device, free_bytes)
    )


def jobs_of(name: str, geometry: Geometry, device: str, free_bytes: int) -> tuple[Job, ...]:
    """Returns a job for each way that the device has, for one model of this shape."""
    return tuple(
        _job(name, method, need_for(geometry, way.settings), device, free_bytes)
        for method, way in WAYS.items()
        if not way.devices or device in way.devices
    )


def _job(name: str, method: str, need: MemoryNeed, device: str, free_bytes: int) -> Job:
    fit, settings = estimate_memory(need), WAYS[method].settings
    try:
        check_fit(fit, device, free_bytes)
    except DoesNotFitError:
        return Job(name, method, settings, fit.total, fits=False)
    return Job(name, method, settings, fit.total, fits=True)
