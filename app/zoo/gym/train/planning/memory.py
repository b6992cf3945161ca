"""Refuses a run that does not fit into the free memory.

The estimate is the engine's (`zoo.backends.memory`), or the measured peak of an earlier run
(`footprints`); such a peak alone does not refuse a run, because it may have had another cause.
"""

from typing import TYPE_CHECKING

from zoo.gym.errors import DoesNotFitError

if TYPE_CHECKING:
    from zoo.backends.base import Backend
    from zoo.backends.memory import MemoryEstimate
    from zoo.backends.ranks import Ranks


def check_fit(
    fit: "MemoryEstimate", device: str, free_bytes: int, processes: int = 1
) -> str | None:
    """Refuses a run that needs more than the free memory, also by the formula.

    Args:
        fit: the estimate for one process.
        device: the device.
        free_bytes: the free memory of the device.
        processes: how many processes of the run share it.

    Returns:
        A warning if only a measured peak exceeds the free memory, else None.

    Raises:
        DoesNotFitError: the message has both numbers, the hint what to change.
    """
    # the interpreter and the libraries are not in the accelerator's memory
    formula = (fit.calculated or fit.total) - (fit.reserve if device == "cuda" else 0)
    each = min(fit.total, formula) if fit.source == "measured" else formula
    needed, total = processes * each, processes * fit.total
    of = f" for {processes} processes" if processes > 1 else ""
    if needed > free_bytes:
        raise DoesNotFitError(
            "the run does not fit into memory: expected at most the "
            f"{free_bytes / 1e9:.2f} GB that are free on {device}, "
            f"got {needed / 1e9:.2f} GB{of} ({fit.source})",
            hint=f"{'fewer num_processes, ' if of else ''}per_device_train_batch_size=1 with more "
            "gradient_accumulation_steps, a smaller cutoff_len, or gradient_checkpointing=true; "
            "zoo-gym doctor compares the memory of other ways to train",
            code="train.out_of_memory",
        )
    if fit.source == "measured" and total > free_bytes:
        return (
            f"memory: an earlier run like this one took {total / 1e9:.2f} GB{of}, "
            f"{free_bytes / 1e9:.2f} GB are free on {device}: it may run out of memory"
        )
    return None


def check_fit_everywhere(
    fit: "MemoryEstimate | None", device: str, ranks: "Ranks", engine: "Backend"
) -> None:
    """Refuses a run that does not fit on the fullest of the processes' GPUs. Collective.

    Raises:
        DoesNotFitError: see `check_fit`.
    """
    if fit is not None and device == "cuda" and ranks.size > 1:
        gathered = ranks.gather_bytes(str(engine.free_bytes()).encode())
        check_fit(fit, device, min(map(int, gathered)))
