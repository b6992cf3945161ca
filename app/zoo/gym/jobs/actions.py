"""What a user can do to a run from outside: pause, park, stop, kill and resume."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import psutil

from zoo.gym.errors import GymError, InputError
from zoo.gym.jobs.control import Request
from zoo.gym.jobs.identity import is_alive, is_halted, read_identity
from zoo.gym.jobs.launch import FIRST_EVENT_S, launch
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import State, Status, reconcile

KILL_S = 5.0
"""How long a killed process may take to be gone."""

_POLL_S = 0.02
_WHY_NOT: dict[State, str] = {
    "done": "is done",
    "failed": "has failed",
    "interrupted": "is interrupted",
}


def pause(run: Run) -> None:
    """Asks a live run to hold: the process stays, the model stays loaded.

    Raises:
        GymError: the run has no worker, or one that is stopped from outside.
        StorageError: the run folder cannot be written.
    """
    _ask(run, "pause")


def park(run: Run) -> None:
    """Asks a live run to save and leave, which frees the device; `resume` goes on.

    Raises:
        GymError: the run has no worker, or one that is stopped from outside.
        InputError: its checkpoints hold the model alone, so it could not be resumed.
        StorageError: the run folder cannot be written.
    """
    if keeps_only_model(run):
        raise InputError(
            f"cannot park run '{run.id}': expected one that can be resumed, got one with "
            "save_only_model, whose checkpoints hold no optimizer state",
            hint=f"zoo-gym runs pause {run.id} keeps its process, zoo-gym runs finish {run.id} "
            "ends it",
        )
    _ask(run, "park")


def stop(run: Run) -> None:
    """Asks a live run, held or not, to save and leave; `resume` goes on.

    Raises:
        GymError: the run has no worker, or one that is stopped from outside.
        StorageError: the run folder cannot be written.
    """
    _ask(run, "stop")


def kill(run: Run) -> Status:
    """Ends a run's process at once, without saving; `resume` goes on from the last checkpoint.

    Raises:
        GymError: the run has no worker, or its process is unknown, this one, or does not end.
        StorageError: the run folder cannot be written.
    """
    status = reconcile(run)
    if not status.live:
        raise _not_live("kill", run, status)
    identity = read_identity(run.identity_file)
    if identity is None or identity.pid == os.getpid():
        raise GymError(
            f"cannot kill run '{run.id}': expected the process of a worker in worker.json"
        )
    with suppress(psutil.NoSuchProcess):
        psutil.Process(identity.pid).kill()
    deadline = time.monotonic() + KILL_S
    while is_alive(identity):
        if time.monotonic() > deadline:
            raise GymError(
                f"process {identity.pid} of run '{run.id}' did not end: expected it gone"
            )
        time.sleep(_POLL_S)
    return reconcile(run)


def check_answers(run: Run) -> None:
    """Makes sure that a run's process can answer a request.

    Raises:
        GymError: it is stopped from outside; says how to let it go on, and how to end it.
    """
    identity = read_identity(run.identity_file)
    if identity is not None and is_halted(identity):
        raise GymError(
            f"run '{run.id}' answers nothing: its process {identity.pid} is stopped from outside "
            "(SIGSTOP): expected one that runs",
            hint=f"let it go on: kill -CONT {identity.pid}; or end it without saving: "
            f"zoo-gym runs stop {run.id} --kill",
        )


def resume(
    run: Run,
    changes: Sequence[str] = (),
    *,
    wait_s: float = FIRST_EVENT_S,
    entry: str | None = None,
) -> Status:
    """Lets a held run go on, or starts a new worker for one that was interrupted or failed.

    Args:
        run: the run; it goes on from its last checkpoint, with the settings that it began with.
        changes: `KEY=VALUE` of settings to change, see `zoo.gym.train.settings`.
        wait_s: how long a new worker may take to its first event.
        entry: "module:function" that does the work, None for training.

    Returns:
        The status as it was before, whose `offset` is where the new events begin; its `step` is
        the one that the run goes on behind, which may lie before the last one that finished.

    Raises:
        GymError: the run is done, or running, or on its way out, or did not start.
        InputError: its settings were edited, a setting cannot change, or a file is damaged.
    """
    status = reconcile(run)
    if status.state == "done":
        raise GymError(f"run '{run.id}' is done: expected one that was paused or interrupted")
    if not status.live:
        if not changes:
            _settle(run, ())  # an edit explains more than what follows from it
        step = _step_found(run, status, changes)
        launch(run, before=partial(_prepare, run, changes, step), wait_s=wait_s, entry=entry)
        return replace(status, step=step)
    pending = run.control.pending()
    if pending == "pause":
        if changes:
            raise GymError(
                f"run '{run.id}' has a process, whose settings cannot change: expected one without",
                hint=f"end it first, it saves: zoo-gym runs pause {run.id} --park",
            )
        _settle(run, ())
        run.control.clear("pause")
        return status
    doing = f"is about to {pending}" if pending else f"is {status.state}"
    raise GymError(f"run '{run.id}' {doing}: expected one that was paused or interrupted")


def finish(run: Run, *, wait_s: float = FIRST_EVENT_S) -> Status:
    """Starts a worker that makes a result of a run's best step so far, without further training.

    Args:
        run: one that was stopped, parked or killed, or has failed.
        wait_s: how long the worker may take to its first event.

    Returns:
        See `resume`.

    Raises:
        GymError: the run is done or has a worker, or did not start.
        InputError: it has no checkpoint yet, or see `resume`.
    """
    from zoo.gym.train.checkpoint import newest_step

    status, step = reconcile(run), newest_step(run.checkpoints)
    if not status.live and status.state != "done" and not step:
        raise InputError(
            f"run '{run.id}' has nothing to keep: expected a checkpoint, got none",
            hint=f"zoo-gym runs resume {run.id}, or zoo-gym runs remove {run.id}",
        )
    return resume(run, [f"max_steps={step}"], wait_s=wait_s)


def keeps_only_model(run: Run) -> bool:
    """Says whether a run's checkpoints hold the model alone: it can be finished, not resumed."""
    from zoo.gym.train.settings import settings_in

    try:
        config = settings_in(run.env_file)
    except InputError:  # damaged: what needs the settings says so
        return False
    return config is not None and config.save_only_model


def _step_found(run: Run, status: Status, changes: Sequence[str]) -> int:
    """Returns the step of the checkpoint to go on from; refuses what the worker would refuse."""
    from zoo.gym.train.checkpoint import checkpoint_to_resume
    from zoo.gym.train.env import check_as_began
    from zoo.gym.train.output import check_places
    from zoo.gym.train.progress import check_resumable
    from zoo.gym.train.settings import settings_in
    from zoo.gym.train.stored_split import stored_split

    stored_split(run.folder)
    found = checkpoint_to_resume(run.checkpoints)
    if found.folder is None and status.saved:
        raise InputError(
            f"run {run.id} cannot go on: expected the checkpoint of step {status.saved}, got none",
            hint=f"put it back, or start a new run: zoo-gym train {run.config_file}",
        )
    check_as_began(run.env_file)
    config = settings_in(run.env_file)
    if config is not None:
        check_places(run, config)
    if found.folder is not None and config is not None:
        last = found.step if f"max_steps={found.step}" in changes else config.max_steps
        check_resumable(found.folder, found.step, last)
    return found.step


def _prepare(run: Run, changes: Sequence[str], step: int) -> None:
    from zoo.gym.train.env import note_versions

    _settle(run, changes)
    run.control.clear()
    if (told := note_versions(run.env_file, step)) is not None:
        run.events.emit("warn", message=told)


def _settle(run: Run, changes: Sequence[str]) -> None:
    """Makes the changes of settings that were asked for by name and refuses any other."""
    from zoo.gym.train.checkpoint import newest_step
    from zoo.gym.train.settings import change_settings, stored_settings

    if changes:
        newest = newest_step(run.checkpoints)
        change_settings(run.config_file, run.env_file, changes, newest)
    else:
        stored_settings(run.config_file, run.env_file)


def _ask(run: Run, request: Request) -> None:
    status = reconcile(run)
    if not status.live:
        raise _not_live(request, run, status)
    run.control.request(request)
    check_answers(run)


def _not_live(verb: str, run: Run, status: Status) -> GymError:
    return GymError(
        f"cannot {verb} run '{run.id}': expected a live run, got one that {_WHY_NOT[status.state]}",
        hint="see all runs with: zoo-gym runs list",
    )
