"""Training from Python: creates the same run folder as the commands, in this process."""

import json
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from zoo.gym.arguments import instance_of
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.config.train import Rows
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside

if TYPE_CHECKING:
    from zoo.gym.jobs.control import Control


@contextmanager
def ctrl_c_saves(control: "Control") -> Generator[None]:
    """Makes Ctrl-C save and stop the run, as it does in `zoo-gym train`; main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(signum: int, frame: FrameType | None) -> None:
        control.leave()

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def rows_text(rows: Rows) -> str:
    """Returns rows that were given in Python as JSON Lines.

    Raises:
        InputError: a row holds what JSON lacks; names its place.
    """
    lines: list[str] = []
    for place, row in enumerate(rows, 1):
        try:
            lines.append(json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n")
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"dataset: row {place}: expected text, numbers, lists and dicts, got another "
                f"value: {error}"
            ) from None
    return "".join(lines)


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        run: the run's id.
        folder: the run folder, with settings, events and checkpoints.
        model: the trained model: a PEFT folder, or a transformers folder for full training.
        metrics: the measurements; losses are in nats per learned token.
    """

    run: str
    folder: Path
    model: Path
    metrics: Mapping[str, Any]


def run_training(config: TrainConfig) -> RunResult:
    """Trains in this process and returns when the run is done.

    The base model must be on this machine; nothing is downloaded. The run appears in
    `zoo-gym runs list` and can be paused and stopped from there. Other runs wait until it ends.

    `dataset` names files (a path, or a list of paths), or is a list of rows, each a dict such as
    `{"prompt": ..., "completion": ...}`; rows are stored in the run folder, for its owner alone, so
    that `zoo-gym runs resume` finds them.

    Raises:
        InputError: `config` is not a `TrainConfig`.
        NotAvailableError: another run has the device; a call that waits silently looks hung.
        GymError: the run cannot start, learns nothing, or was stopped: Ctrl-C saves first.
    """
    from zoo.gym.jobs.control import wait_while_paused
    from zoo.gym.jobs.lock import locked
    from zoo.gym.jobs.outputs import check_unclaimed
    from zoo.gym.jobs.queue import turn_on_device
    from zoo.gym.jobs.run import create_run
    from zoo.gym.jobs.worker import work
    from zoo.gym.train.pinned import pinned
    from zoo.gym.train.session import run_session
    from zoo.gym.train.settings import store_settings
    from zoo.models import resolve
    from zoo.models.offline import offline

    instance_of(
        "config", config, TrainConfig, hint="TrainConfig(model_name_or_path=..., dataset=...)"
    )
    rows = rows_text(config.rows)
    config = pinned(config, resolve(config.model_name_or_path, offline=True))
    if config.output_dir is not None:
        check_unclaimed(Path(config.output_dir))
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    if rows:
        write_beside(run.rows_file, rows)
        config = config.model_copy(update={"dataset": (str(run.rows_file),)})
        store_settings(run.config_file, run.env_file, config)
    leaving = partial(wait_while_paused, run.control, run.events)
    turn = partial(turn_on_device, run, wait=False)
    done: dict[str, object] = {}

    def session(_: object) -> Mapping[str, object]:
        done.update(run_session(config, run, leaving, turn))
        return done

    with locked(run.lock_file, wait_s=0), ctrl_c_saves(run.control), offline():
        run.events.emit("state", state="running")
        work(run, session)
    metrics = done["metrics"]
    assert isinstance(metrics, Mapping)
    return RunResult(run.id, run.folder, Path(str(done["model"])), metrics)
