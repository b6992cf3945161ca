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
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.kinds import KindOfRun, special_kind
from zoo.gym.jobs.launch import FIRST_EVENT_S, launch
from zoo.gym.jobs.run import Run, is_experience
from zoo.gym.jobs.state import State, Status, reconcile
from zoo.gym.processes import is_alive, is_halted
from zoo.gym.train.run_folder.ended import keeps_only_model

KILL_S = 5.0
"""How long to wait for a killed process to exit."""

_POLL_S = 0.02
_WHY_NOT: dict[State, str] = {
    "done": "is done",
    "failed": "has failed",
    "interrupted": "is interrupted",
}


def pause(run: Run) -> None:
    """Requests a pause of a live run: the process and the loaded model stay.

    Raises:
        GymError: its worker is suspended from outside.
        InputError: the run has no worker.
        StorageError: the run folder cannot be written.
    """
    _request(run, "pause")


def park(run: Run) -> None:
    """Requests a live run to save and exit, which frees the device; `resume` continues it.

    Raises:
        GymError: its worker is suspended from outside.
        InputError: the run has no worker, or its checkpoints contain only the model, so that it
            could not be resumed.
        StorageError: the run folder cannot be written.
    """
    if keeps_only_model(run.folder):
        raise InputError(
            f"cannot park run '{run.id}': expected one that can be resumed, got one with "
            "save_only_model, whose checkpoints lack the optimizer state",
            hint=f"to keep its process: zoo-gym runs pause {run.id}; to end it: "
            f"zoo-gym runs finish {run.id}",
            code="jobs.cannot_park",
        )
    _request(run, "park")


def stop(run: Run) -> None:
    """Requests a live run, paused or not, to save and exit; `resume` continues it.

    Raises:
        GymError: its worker is suspended from outside.
        InputError: the run has no worker.
        StorageError: the run folder cannot be written.
    """
    _request(run, "stop")


def kill(run: Run) -> Status:
    """Ends a run's process at once, without saving; `resume` continues from the last checkpoint.

    Raises:
        GymError: its process is unknown, the caller, or does not exit.
        InputError: the run has no worker.
        StorageError: the run folder cannot be written.
    """
    status = reconcile(run)
    if not status.live:
        raise _not_live("kill", run, status)
    identity = read_identity(run.identity_file)
    if identity is None or identity.pid == os.getpid():
        raise GymError(
            f"cannot kill run '{run.id}': expected the process of a worker in worker.json",
            code="jobs.cannot_kill",
        )
    with suppress(psutil.NoSuchProcess):
        psutil.Process(identity.pid).kill()
    deadline = time.monotonic() + KILL_S
    while is_alive(identity):
        if time.monotonic() > deadline:
            raise GymError(
                f"process {identity.pid} of run '{run.id}' did not exit after it was killed",
                code="jobs.cannot_kill",
            )
        time.sleep(_POLL_S)
    return reconcile(run)


def check_answers(run: Run) -> None:
    """Makes sure that a run's process can answer a request.

    Raises:
        GymError: it is suspended from outside; the hint tells how to continue it and how to end it.
    """
    identity = read_identity(run.identity_file)
    if identity is not None and is_halted(identity):
        raise GymError(
            f"run '{run.id}' does not respond: expected a running process, "
            f"got process {identity.pid} suspended from outside (SIGSTOP)",
            hint=f"continue it: kill -CONT {identity.pid}; or end it without saving: "
            f"zoo-gym runs stop {run.id} --kill",
            code="jobs.suspended",
        )


def resume(
    run: Run,
    changes: Sequence[str] = (),
    *,
    wait_s: float = FIRST_EVENT_S,
    entry: str | None = None,
) -> Status:
    """Continues a paused run, or starts a new worker for one that was interrupted or failed.

    Args:
        run: the run; it continues from its last checkpoint with its original settings.
        changes: settings to change as `KEY=VALUE`, see `zoo.gym.train.run_folder.settings`.
        wait_s: how long a new worker may take to its first event.
        entry: "module:function" that does the work in place of that of its kind, for tests.

    Returns:
        The status before the resume; new events start at its `offset`. Its `step` is the step that
        the run continues after, which may be earlier than the last finished one.

    Raises:
        GymError: it did not start.
        InputError: the run is done, running or about to exit, its settings were edited, a setting
            cannot change, or a file is damaged.
    """
    status = reconcile(run)
    if not status.live:
        return _restart(run, status, changes, finish=False, wait_s=wait_s, entry=entry)
    pending = run.control.pending()
    if pending == "pause":
        if changes:
            raise InputError(
                f"cannot change settings of run '{run.id}': expected one without a process, "
                "got a paused one",
                hint=f"park it first, which saves it: zoo-gym runs pause {run.id} --park",
                code="jobs.live",
            )
        if not is_experience(run):
            _apply_changes(run, ())
        run.control.clear("pause")
        return status
    doing = f"is about to {pending}" if pending else f"is {status.state}"
    raise InputError(
        f"run '{run.id}' {doing}: expected a paused, stopped or failed run",
        code="jobs.not_resumable",
    )


def finish(run: Run, *, wait_s: float = FIRST_EVENT_S) -> Status:
    """Starts a worker that creates a result from a run's best step, without further training.

    Args:
        run: one that was stopped, parked or killed, or has failed.
        wait_s: how long the worker may take to its first event.

    Returns:
        See `resume`.

    Raises:
        GymError: it did not start.
        InputError: the run is done or has a worker, it has no checkpoint yet, or see `resume`.
    """
    from zoo.gym.train.run_folder.checkpoint import newest_step

    status = reconcile(run)
    if status.live:
        raise InputError(
            f"run '{run.id}' is {status.state}: expected one without a process", code="jobs.live"
        )
    if status.state != "done" and not newest_step(run.checkpoints):
        raise InputError(
            f"run '{run.id}' has nothing to keep: expected a checkpoint, got none",
            hint=f"zoo-gym runs resume {run.id}, or zoo-gym runs remove {run.id}",
            code="jobs.no_checkpoint",
        )
    return _restart(run, status, (), finish=True, wait_s=wait_s)


def _restart(
    run: Run,
    status: Status,
    changes: Sequence[str],
    *,
    finish: bool,
    wait_s: float,
    entry: str | None = None,
) -> Status:
    """Starts a new worker for a run without one, which trains on or only makes the result."""
    if status.state == "done":
        raise InputError(
            f"run '{run.id}' is done: expected a paused, stopped or failed run", code="jobs.done"
        )
    kind = special_kind(run)
    if kind is not None and not kind.trains:  # it repeats its way by the journal
        launch(run, prepare=partial(_clear, run, kind, changes), wait_s=wait_s, entry=entry)
        return replace(status, step=0)
    caps = [change for change in changes if kind and change.partition("=")[0] in kind.caps]
    changes = [change for change in changes if change not in caps]
    if not changes:
        _apply_changes(run, ())  # reports an edit itself, not an error that follows from it
    step = _step_to_resume(run, status, changes, finish=finish)
    prepare = partial(_prepare, run, changes, step, finish=finish, kind=kind, caps=caps)
    launch(run, prepare=prepare, wait_s=wait_s, entry=entry)
    return replace(status, step=step)


def _clear(run: Run, kind: KindOfRun, changes: Sequence[str]) -> None:
    from zoo.gym.train.run_folder.settings import update_env

    if capped := kind.capped(run, changes):
        update_env(run.env_file, capped)
    run.control.clear()


def _step_to_resume(run: Run, status: Status, changes: Sequence[str], *, finish: bool) -> int:
    """Returns the step of the checkpoint to resume; refuses what the worker would refuse."""
    from zoo.gym.train.progress import check_resumable
    from zoo.gym.train.result.output import check_places
    from zoo.gym.train.run_folder.checkpoint import checkpoint_to_resume
    from zoo.gym.train.run_folder.env import check_as_began
    from zoo.gym.train.run_folder.settings import settings_in
    from zoo.gym.train.run_folder.split import stored_split

    stored_split(run.folder)
    checkpoint = checkpoint_to_resume(run.checkpoints)
    if checkpoint.folder is None and status.saved:
        raise InputError(
            f"run '{run.id}' cannot be resumed: expected the checkpoint of step {status.saved}, "
            "got none",
            hint=f"restore it, or start a new run: zoo-gym train {run.config_file}",
            code="jobs.no_checkpoint",
        )
    check_as_began(run.env_file)
    config = settings_in(run.env_file)
    if config is not None:
        check_places(run, config)
    if checkpoint.folder is not None and config is not None:
        ends = finish or f"max_steps={checkpoint.step}" in changes
        last = checkpoint.step if ends else config.max_steps
        check_resumable(checkpoint.folder, checkpoint.step, last)
    return checkpoint.step


def _prepare(
    run: Run,
    changes: Sequence[str],
    step: int,
    *,
    finish: bool,
    kind: KindOfRun | None,
    caps: Sequence[str],
) -> None:
    from zoo.gym.train.run_folder.env import note_versions
    from zoo.gym.train.run_folder.settings import finish_at, update_env

    capped = kind.capped(run, caps) if kind else {}
    _apply_changes(run, changes)
    if capped:
        update_env(run.env_file, capped)
    finish_at(run.env_file, step if finish else None)
    run.control.clear()
    if (warning := note_versions(run.env_file, step)) is not None:
        run.events.emit("warn", message=warning)


def _apply_changes(run: Run, changes: Sequence[str]) -> None:
    """Applies the requested changes of settings and refuses any other change."""
    from zoo.gym.train.run_folder.checkpoint import newest_step
    from zoo.gym.train.run_folder.settings import change_settings, stored_settings

    if changes:
        newest = newest_step(run.checkpoints)
        change_settings(run.config_file, run.env_file, changes, newest)
    else:
        stored_settings(run.config_file, run.env_file)


def _request(run: Run, request: Request) -> None:
    status = reconcile(run)
    if not status.live:
        raise _not_live(request, run, status)
    run.control.request(request)
    check_answers(run)


def _not_live(verb: str, run: Run, status: Status) -> InputError:
    return InputError(
        f"cannot {verb} run '{run.id}': expected a live run, got one that {_WHY_NOT[status.state]}",
        hint="list all runs: zoo-gym runs list",
        code="jobs.not_live",
    )
