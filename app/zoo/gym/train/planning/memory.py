"""Refuses a run that does not fit into the free memory.

The estimate is the engine's (`zoo.backends.memory`), or the measured peak of an earlier run
(`footprints`); such a peak alone does not refuse a run, because it may have had another cause.
"""

from typing import TYPE_CHECKING

from zoo.gym.errors import DoesNotFitError

if TYPE_CHECKING:
    from zoo.backends.memory import MemoryEstimate


def check_fit(fit: "MemoryEstimate", device: str, free_bytes: int) -> str | None:
    """Refuses a run that needs more than the free memory, also by the formula.

    Returns:
        A warning if only a measured peak exceeds the free memory, else None.

    Raises:
        DoesNotFitError: the message has both numbers, the hint what to change.
    """
    # the interpreter and the libraries are not in the accelerator's memory
    formula = (fit.calculated or fit.total) - (fit.reserve if device == "cuda" else 0)
    needed = min(fit.total, formula) if fit.source == "measured" else formula
    if needed > free_bytes:
        raise DoesNotFitError(
            "the run does not fit into memory: expected at most the "
            f"{free_bytes / 1e9:.2f} GB that are free on {device}, "
            f"got {needed / 1e9:.2f} GB ({fit.source})",
            hint="per_device_train_batch_size=1 with more gradient_accumulation_steps, "
            "a smaller cutoff_len, or gradient_checkpointing=true",
        )
    if fit.source == "measured" and fit.total > free_bytes:
        return (
            f"memory: an earlier run like this one took {fit.total / 1e9:.2f} GB, "
            f"{free_bytes / 1e9:.2f} GB are free on {device}: it may run out of memory"
        )
    return None
