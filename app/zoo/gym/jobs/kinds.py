"""How a kind of run differs from training. Rooms above define theirs, see `zoo.gym.wiring`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from zoo.gym.jobs.run import Run, kind_of
from zoo.gym.wiring import wired


@dataclass(frozen=True)
class KindOfRun:
    """A kind of run besides training.

    Attributes:
        work: does the work of a run in its worker and returns the fields of its end event.
        caps: the settings, besides those of training, that a resume may change.
        capped: returns the new values in a run's `env.json` for changes of caps as `KEY=VALUE`.
        trains: whether it trains weights, so that a resume continues from a checkpoint.
    """

    work: Callable[[Run], Mapping[str, object]]
    caps: Sequence[str]
    capped: Callable[[Run, Sequence[str]], Mapping[str, object]]
    trains: bool


def special_kind(run: Run) -> KindOfRun | None:
    """Returns how the kind of a run differs from training; None for training."""
    kind = kind_of(run)
    return None if kind == "training" else cast("KindOfRun", wired(f"run of {kind}"))
