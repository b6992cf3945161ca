"""Pause, park, stop and resume, asked for from a screen; the worker answers by its events."""

import asyncio
from collections.abc import Callable

from textual.screen import Screen

from zoo.gym import jobs
from zoo.gym.errors import GymError
from zoo.gym.jobs import Run, State
from zoo.gym.jobs.state import LIVE, has_halted_worker
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.confirm import ConfirmDialog

STATES: dict[str, frozenset[State]] = {
    "pause": frozenset({"queued", "running"}),
    "resume": frozenset({"paused", "interrupted", "failed"}),
    "park": LIVE,
    "stop": LIVE,
}
"""In which states of a run each can be asked for."""


def is_offered(action: str, state: State | None) -> bool:
    """Says whether an action of a screen can be done to a run; None is no run."""
    return action not in STATES or state in STATES[action]


def pause(screen: Screen[None], run: Run) -> None:
    """Has a run hold, its model loaded."""
    _ask(screen, run, jobs.pause, f"{run.id} pauses after this step")


def resume(screen: Screen[None], run: Run) -> None:
    """Lets a run go on, in a new process where it has none."""
    _ask(screen, run, jobs.resume, f"{run.id} goes on")


def park(screen: Screen[None], run: Run) -> None:
    """Has a run saved and its process ended, to free the device."""
    _ask(screen, run, jobs.park, f"{run.id} saves and frees the device")


def stop(screen: Screen[None], run: Run) -> None:
    """Has a run saved and ended, after a yes; one whose process cannot answer is killed."""

    def answered(yes: bool | None) -> None:
        if yes:
            _ask(screen, run, jobs.stop, f"{run.id} saves and stops")

    def confirmed(yes: bool | None) -> None:
        if yes:
            _ask(screen, run, jobs.kill, f"{run.id} is killed")

    if has_halted_worker(run):
        dialog = ConfirmDialog(
            f"Kill run {run.id}?",
            "Its process is stopped from outside (SIGSTOP): it answers nothing and cannot save. "
            "Once killed, the run can be resumed from its last checkpoint at any time.",
            yes="Yes, kill it",
        )
        screen.app.push_screen(dialog, confirmed)
        return
    dialog = ConfirmDialog(
        f"Stop run {run.id}?",
        "It saves a checkpoint and its process ends. Nothing that it learned is lost: it can be "
        "resumed from there at any time.",
        yes="Yes, stop it",
    )
    screen.app.push_screen(dialog, answered)


def _ask(screen: Screen[None], run: Run, act: Callable[[Run], object], done: str) -> None:
    async def work() -> None:
        try:
            await asyncio.to_thread(act, run)
        except GymError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            screen.app.notify(visible(f"{error.message}{hint}"), severity="error", markup=False)
        else:
            screen.app.notify(done, markup=False)

    # the app's own worker: leaving the screen must not leave the request half-way
    screen.app.run_worker(work(), group="requests")
