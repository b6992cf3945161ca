"""Which programs get the figures of a run, and whether they are installed: `report_to`."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

MODE = "WANDB_MODE"


def trackers_of(config: "TrainConfig") -> tuple[str, ...]:
    """Returns the trackers of a run, sorted: `tensorboard`, `wandb`, both or none."""
    return () if config.report_to == "none" else tuple(config.report_to.split(","))


def check_trackers(config: "TrainConfig") -> None:
    """Checks that the trackers are installed and not switched off.

    Raises:
        NotAvailableError: one is missing.
        InputError: the environment switches W&B off.
    """
    for name in trackers_of(config):
        if find_spec(name) is None:
            raise NotAvailableError(
                f"report_to: {name} needs the package {name}, which is not installed",
                hint=install_command("track"),
                code="train.missing_tracker",
            )
    if "wandb" in trackers_of(config) and os.environ.get(MODE) == "disabled":
        raise InputError(
            f"report_to: wandb has no effect with {MODE}=disabled in the environment",
            hint=f"unset {MODE}, or leave report_to out",
            code="train.tracker_disabled",
        )
