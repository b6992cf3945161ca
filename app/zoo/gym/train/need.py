"""What a run will need of the memory, from its plan and from what earlier runs took."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.paths import folders
from zoo.gym.train.fit import (
    Fit,
    Need,
    estimate,
    footprint_key,
    known_peak,
)
from zoo.gym.train.plan import Plan, batch_tokens
from zoo.gym.train.rows import Rows
from zoo.models.folder import count_parameters, model_geometry

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.models import Resolved


def need_of(plan: Plan, folder: Path, rows: Rows) -> Need | None:
    """Returns what decides the memory of a run, or None for a model of another kind."""
    from zoo.backends.torch.load import pick_dtype
    from zoo.models import checkpoint_files

    geometry, config = model_geometry(folder), plan.config
    if geometry is None:
        return None
    longest = max(len(row.ids) for row in rows.train)
    full = config.finetuning_type == "full"
    dtype = pick_dtype(checkpoint_files(folder), config.dtype, full=full)
    held_out = max((len(row.ids) for row in rows.held_out), default=0)
    limit = batch_tokens(count_parameters(folder))
    scored = min(max(limit, held_out), held_out * plan.evaluation_rows)
    return Need(
        geometry=geometry,
        full=full,
        rank=config.lora_rank,
        tokens=longest * (config.per_device_train_batch_size or 1),
        evaluation_tokens=scored,
        checkpointing=bool(config.gradient_checkpointing),
        weight_bytes=dtype.itemsize,
    )


def expected(need: Need | None, base: "Resolved") -> Fit | None:
    """Returns the estimate: the peak of an earlier run like this one, else the formula's."""
    if need is None:
        return None
    peak = known_peak(footprints(), footprint_key(base.id, need))
    fit = estimate(need)
    return fit if peak is None else replace(fit, total=peak, source="measured")


def footprints() -> Path:
    """Returns the file of measured peaks."""
    return folders().cache / "footprints.json"


def peak_bytes(policy: "Policy") -> int:
    """Returns the peak where the model lies: on the accelerator if there is one."""
    found = policy.memory()
    return found.peak_device_bytes or found.peak_host_bytes
