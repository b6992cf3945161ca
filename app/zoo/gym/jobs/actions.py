"""What a user can do to a run from outside: pause, park, stop and resume."""

from collections.abc import Sequence

from zoo.gym.errors import GymError
from zoo.gym.jobs.control import Request
from zoo.gym.jobs.launch import FIRST_EVENT_S, launch
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import State, Status, reconcile

_WHY_NOT: dict[State, str] = {
    "done": "is done",
    "failed": "has failed",
    "interrupted": "is interrupted",
}


def pause(run: Run) -> None:
    """Asks a live run to hold: the process stays, the model stays loaded.

    Raises:
        GymError: the run has no worker.
        StorageError: the run folder cannot be written.
    """
    _ask(run, "pause")


def park(run: Run) -> None:
    """Asks a live run to save and leave, which frees the device; `resume` goes on.

    Raises:
        GymError: the run has no worker.
        StorageError: the run folder cannot be written.
    """
    _ask(run, "park")


def stop(run: Run) -> None:
    """Asks a live run, held or not, to save and leave; `resume` goes on.

    Raises:
        GymError: the run has no worker.
        StorageError: the run folder cannot be written.
    """
    _ask(run, "stop")


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
        The status as it was before, whose `offset` is where the new events begin.

    Raises:
        GymError: the run is done, or running, or on its way out, or did not start.
        InputError: its settings were edited, a setting cannot change, or a file is damaged.
    """
    status = reconcile(run)
    if status.state == "done":
        raise GymError(f"run '{run.id}' is done: expected one that was paused or interrupted")
    if not status.live:
        _settle(run, changes)
        run.control.clear()
        launch(run, wait_s=wait_s, entry=entry)
        return status
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
        raise GymError(
            f"cannot {request} run '{run.id}': expected a live run, got one that "
            f"{_WHY_NOT[status.state]}",
            hint="see all runs with: zoo-gym runs list",
        )
    run.control.request(request)
