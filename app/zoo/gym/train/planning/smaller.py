"""What a run that did not fit into memory can change and still learn the same."""

from collections.abc import Mapping

OUT_OF_MEMORY = frozenset({"jobs.out_of_memory", "train.out_of_memory"})
"""The codes of runs that did not fit."""

LEVERS = ("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing")
"""Settings that cost time and change no step: the same rows make each one."""


def smaller_steps(settings: Mapping[str, object]) -> dict[str, object]:
    """Returns the settings that need less memory for the same steps; empty if nothing is left.

    Where the rows at a time are not known, the run accumulates as many as make its step; with a
    number of its own for that, they stay.

    Args:
        settings: those of the run, with what it chose itself where that is known.
    """
    rows, times, checkpointing = (settings.get(key) for key in LEVERS)
    changes: dict[str, object] = {}
    if rows != 1 and (isinstance(rows, int) or times is None):
        changes["per_device_train_batch_size"] = 1
        if isinstance(rows, int):
            changes["gradient_accumulation_steps"] = rows * (times if isinstance(times, int) else 1)
    if checkpointing is not True:
        changes["gradient_checkpointing"] = True
    return changes
