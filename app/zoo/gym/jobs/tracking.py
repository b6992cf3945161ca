"""Writes the figures of a run for TensorBoard and W&B, into the run folder: `report_to`.

A track is written anew from the event log when a run starts or is resumed, so that it has each
step once; then event by event. W&B is offline whatever the environment says: `wandb sync` sends it.
W&B's files have figures and settings without paths: no text of the data, no code, no name of the
machine, which is in the name of TensorBoard's file.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zoo.gym.files import read_json_object, storage_errors
from zoo.gym.jobs.events import Event, EventReader
from zoo.gym.jobs.figures import Figures, figures_in, figures_of
from zoo.gym.jobs.run import Run
from zoo.gym.paths import make_folder
from zoo.gym.train.planning.trackers import MODE, trackers_of

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

PROJECT = "zoo-gym"

NAMES = {
    "clip_high": "clip_ratio/high_mean",
    "clip_low": "clip_ratio/low_mean",
    "completion_length": "completions/mean_length",
    "equal_groups": "frac_reward_zero_std",
    "tokens": "num_tokens",
    "truncated": "completions/clipped_ratio",
}
"""Figures that trackers get under the names of TRL, where its charts and alarms look for them."""

_WRITING_S, _POLL_S, _HEADER_BYTES = 10.0, 0.05, 7


class Track(Protocol):
    """A place for figures."""

    def add(self, figures: Figures) -> None:
        """Writes the figures of a step."""
        ...

    def close(self) -> None:
        """Writes what is left."""
        ...


@contextmanager
def tracked(run: Run, config: "TrainConfig") -> Generator[None]:
    """Writes the figures of a run to its trackers for the duration of a `with` block.

    A tracker that fails becomes a warning of the run, and gets no more figures.

    Raises:
        StorageError: the run folder cannot be written.
    """
    names = trackers_of(config)
    if not names:
        yield
        return
    if "wandb" in names and os.environ.get(MODE, "offline") != "offline":
        message = f"{MODE}={os.environ[MODE]} has no effect: the figures stay in the run folder"
        run.events.emit("warn", message=f"{message}; `wandb sync` sends them")
    previous, tracks = run.events.on_event, _Tracks(run, config, names)

    def forward(event: Event) -> None:
        if previous is not None:
            previous(event)
        if (figures := figures_of(event)) is not None:
            tracks.add(figures)

    run.events.on_event = forward
    try:
        yield
    finally:
        run.events.on_event = previous
        tracks.close()


class _Tracks:
    """The tracks of a run, which are opened with the first figures.

    These say which steps are trained again, so that a resumed run has each step once.
    """

    def __init__(self, run: Run, config: "TrainConfig", names: Sequence[str]) -> None:
        self._run, self._config, self._names = run, config, list(names)
        self._open: dict[str, Track] = {}

    def add(self, figures: Figures) -> None:
        for name in list(self._names):
            try:
                if name in self._open:
                    self._open[name].add(_renamed(figures))
                else:  # with these figures, which are in the log
                    self._open[name] = _opened(name, self._run, self._config)
            except Exception as error:  # noqa: BLE001 - a tracker must not end a training
                self._names.remove(name)
                self._warn(f"{name} gets no figures from here on", error)

    def close(self) -> None:
        for name, track in self._open.items():
            try:
                track.close()
            except Exception as error:  # noqa: BLE001 - nor fail a run that is done
                if name in self._names:
                    self._warn(f"{name} may lack the last figures", error)

    def _warn(self, message: str, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        self._run.events.emit("warn", message=f"report_to: {message}: {reason}")


def _opened(name: str, run: Run, config: "TrainConfig") -> Track:
    """Returns a new track with all figures in the log so far."""
    folder = run.folder / name
    with storage_errors(folder):
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
    track = _Wandb(run, folder, config) if name == "wandb" else _TensorBoard(folder)
    for figures in figures_in(EventReader(run.events.path).read()):
        track.add(_renamed(figures))
    return track


def _renamed(figures: Figures) -> Figures:
    """Returns figures under the names of `NAMES`; the mean of a reward is `rewards/NAME/mean`."""
    return replace(figures, values={_name(key): value for key, value in figures.values.items()})


def _name(key: str) -> str:
    from zoo.gym.train.online import PART

    head, _, name = key.partition("/")
    return f"{head}/{name}/mean" if name.startswith(PART) else f"{head}/{NAMES.get(name, name)}"


def commands_of(run: Run) -> dict[str, str]:
    """Returns the command that shows or sends what a tracker has, by tracker."""
    commands: dict[str, str] = {}
    if (run.folder / "tensorboard").is_dir():
        commands["tensorboard"] = shlex.join(
            ["tensorboard", "--logdir", str(run.folder / "tensorboard")]
        )
    offline = sorted((run.folder / "wandb").glob("wandb/offline-run-*"))
    if offline:
        commands["wandb"] = shlex.join(["wandb", "sync", str(offline[-1])])
    return commands


class _TensorBoard:
    """An event file of TensorBoard, written without torch."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer: Any = EventFileWriter(str(folder))

    def add(self, figures: Figures) -> None:
        from tensorboard.compat.proto.event_pb2 import (
            Event as Entry,  # pyright: ignore[reportAttributeAccessIssue]
        )
        from tensorboard.compat.proto.summary_pb2 import (
            Summary,  # pyright: ignore[reportAttributeAccessIssue]
        )

        values = [
            Summary.Value(tag=name, simple_value=value) for name, value in figures.values.items()
        ]
        summary = Summary(value=values)
        self._writer.add_event(Entry(wall_time=figures.time, step=figures.step, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """An offline run of W&B."""

    def __init__(self, run: Run, folder: Path, config: "TrainConfig") -> None:
        # read at import: the mode, and folders that would be in the home of the user
        places = dict.fromkeys(("CACHE", "CONFIG", "DATA", "ARTIFACT"), str(folder / "own"))
        os.environ.update({f"WANDB_{name}_DIR": place for name, place in places.items()})
        os.environ.update({"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"})
        previous = os.environ.get(MODE)
        os.environ[MODE] = "offline"
        self._folder = folder
        try:
            self._run: Any = _started(run, folder, config.public_settings())
        finally:
            if previous is not None:
                os.environ[MODE] = previous

    def add(self, figures: Figures) -> None:
        self._run.log({"step": figures.step, **figures.values})

    def close(self) -> None:
        with suppress(OSError):  # its process is gone, as after a signal to the group
            self._run.finish()
        # `finish` does not wait until W&B's own process has written its file
        deadline, sizes = time.monotonic() + _WRITING_S, [0, 0, 0]
        while (len(set(sizes)) > 1 or sizes[0] <= _HEADER_BYTES) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            files = self._folder.glob("wandb/offline-run-*/*.wandb")
            sizes = [*sizes[1:], sum(file.stat().st_size for file in files)]


def _started(run: Run, folder: Path, settings: Mapping[str, Any]) -> Any:  # noqa: ANN401
    import wandb

    created = str((read_json_object(run.env_file) or {}).get("created", 0))
    ours = sys.exit, sys.excepthook
    started = wandb.init(
        project=PROJECT,
        name=run.name or run.id,
        id=f"{run.id}-{int(float(created) * 1000):x}",
        resume="allow",
        dir=str(folder),
        config=dict(settings),
        settings=wandb.Settings(
            mode="offline",
            silent=True,
            console="off",
            disable_git=True,
            save_code=False,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    )
    # W&B puts its own in their place for good, and prints a traceback before ours is reported
    sys.exit, sys.excepthook = ours
    started.define_metric("step")
    started.define_metric("*", step_metric="step")
    return started
