"""What a user can do to a run from outside: pause, park, stop and resume."""

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


def resume(run: Run, *, wait_s: float = FIRST_EVENT_S, entry: str | None = None) -> Status:
    """Lets a held run go on, or starts a new worker for one that was interrupted or failed.

    Args:
        run: the run; its folder, settings and last checkpoint are used as they are.
        wait_s: how long a new worker may take to its first event.
        entry: "module:function" that does the work, None for training.

    Returns:
        The status as it was before, whose `offset` is where the new events begin.

    Raises:
        GymError: the run is done, or running, or on its way out, or did not start.
    """
    status = reconcile(run)
    if status.state == "done":
        raise GymError(f"run '{run.id}' is done: expected one that was paused or interrupted")
    if not status.live:
        run.control.clear()
        launch(run, wait_s=wait_s, entry=entry)
        return status
    pending = run.control.pending()
    if pending == "pause":
        run.control.clear("pause")
        return status
    doing = f"is about to {pending}" if pending else f"is {status.state}"
    raise GymError(f"run '{run.id}' {doing}: expected one that was paused or interrupted")


def _ask(run: Run, request: Request) -> None:
    status = reconcile(run)
    if not status.live:
        raise GymError(
            f"cannot {request} run '{run.id}': expected a live run, got one that "
            f"{_WHY_NOT[status.state]}",
            hint="see all runs with: zoo-gym runs list",
        )
    run.control.request(request)
