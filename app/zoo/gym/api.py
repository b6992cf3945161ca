"""The Python face of training: the same run folder as the commands make, in this process."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from zoo.gym.config import TrainConfig, dump_config


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        run: the run's id.
        folder: the run folder, with settings, events and checkpoints.
        model: the trained model: a PEFT folder, or a transformers folder for full training.
        metrics: what was measured; losses are nats per learned token.
    """

    run: str
    folder: Path
    model: Path
    metrics: Mapping[str, Any]


def run_training(config: TrainConfig) -> RunResult:
    """Trains in this process and returns when the run is done.

    The base model must be on this machine; nothing is fetched. The run appears in
    `zoo-gym runs list` and can be paused and stopped from there.

    Raises:
        GymError: the run cannot start, learns nothing, or was stopped.
    """
    from zoo.gym.jobs.control import wait_while_paused
    from zoo.gym.jobs.lock import locked
    from zoo.gym.jobs.run import create_run
    from zoo.gym.jobs.worker import work
    from zoo.gym.train.session import run_session

    run = create_run(dump_config(config), {})
    leaving = partial(wait_while_paused, run.control, run.events)
    done: dict[str, object] = {}

    def session(_: object) -> Mapping[str, object]:
        done.update(run_session(config, run, leaving))
        return done

    with locked(run.lock_file, wait_s=0):
        run.events.emit("state", state="running")
        work(run, session)
    metrics = done["metrics"]
    assert isinstance(metrics, Mapping)
    return RunResult(run.id, run.folder, Path(str(done["model"])), metrics)
