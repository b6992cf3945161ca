"""What can be done to a run from a screen; the worker answers by its events."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App

from zoo.gym import jobs
from zoo.gym.errors import GymError
from zoo.gym.humanize import human_bytes
from zoo.gym.jobs import Run
from zoo.gym.jobs.command import ask_command
from zoo.gym.jobs.state import LIVE, has_halted_worker
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
from zoo.gym.tui.dialogs.name import NameDialog

if TYPE_CHECKING:
    from zoo.gym.tui.app import GymApp

ERROR_S = 20.0
"""How long an error is shown."""

STATES: dict[str, frozenset[str]] = {
    "pause": frozenset({"queued", "running"}),
    "resume": frozenset({"paused", "interrupted", "failed"}),
    "park": frozenset(LIVE),
    "stop": frozenset(LIVE),
    "finish": frozenset({"interrupted", "failed"}),
    "remove": frozenset({"done", "interrupted", "failed", "damaged"}),
    "chat": frozenset({"done"}),
    "export": frozenset({"done"}),
}
"""The states of a run in which each action is possible."""

ONCE_STOPPED = {
    True: "No progress is lost: it can be resumed from that step at any time.",
    False: "It can then be finished, but not resumed: save_only_model is true.",
}
"""What a stop means for a run, by whether it can be resumed."""


def is_offered(action: str, controlled: tuple[Run, str] | None) -> bool:
    """Says whether an action of a screen can be done to a run in a state; None is no run."""
    if action not in STATES:
        return True
    if controlled is None or controlled[1] not in STATES[action]:
        return False
    run, state = controlled
    if jobs.is_finishing(run, state):
        return False
    if action == "park":
        return not jobs.keeps_only_model(run.folder)
    if state in LIVE or action not in {"resume", "finish"}:
        return True
    ended = jobs.read_ended(run.folder)
    return ended.resumable if action == "resume" else ended.result is not None


def why_idle(actions: Sequence[str], controlled: tuple[Run, str] | None) -> str | None:
    """Returns why a key does nothing to a run now; None if one of its actions is offered."""
    if (
        not actions
        or controlled is None
        or any(is_offered(action, controlled) for action in actions)
    ):
        return None
    run, state = controlled
    if state in LIVE and run.control.pending() in {"stop", "park"}:
        why = f"{run.id} is still saving; wait until it has stopped"
    elif actions[0] in {"chat", "export"}:
        why = f"{run.id} has no result yet"
    elif not any(state in STATES[action] for action in actions) or jobs.is_finishing(run, state):
        what = f"is {jobs.displayed_state(run, state, None)}" if state in LIVE else "has ended"
        why = f"{run.id} {what}"
    elif "finish" in actions:
        why = f"{run.id} has no checkpoint with a result"
    else:
        why = f"{run.id} saves only models (save_only_model)"
    return f"{' or '.join(actions).capitalize()} is not possible: {why}"


def pause(app: App[Any], run: Run) -> None:
    """Pauses a run, whose model stays loaded, or withdraws a pause that it has not begun yet."""
    if run.control.pending() == "pause":
        _request(app, run, jobs.resume, f"{run.id} does not pause")
        return
    _request(app, run, jobs.pause, f"{run.id} pauses after this step")


def resume(app: App[Any], run: Run) -> None:
    """Resumes a run, in a new process if it has none."""
    _request(app, run, jobs.resume, f"{run.id} is resumed")


def park(app: App[Any], run: Run) -> None:
    """Saves a run and ends its process, which frees the device."""
    _request(app, run, jobs.park, f"{run.id} {_saves(run)} and ends its process")


def _saves(run: Run) -> str:
    lessons = jobs.kind_of(run) == "lessons"
    return "keeps all answers it has received" if lessons else "saves a checkpoint"


def stop(app: App[Any], run: Run) -> None:
    """Saves a run and ends it, after a yes; one whose process cannot answer is killed."""
    resumes = not jobs.keeps_only_model(run.folder)
    if has_halted_worker(run):
        later = "resumed from its last checkpoint at any time" if resumes else "finished"
        dialog = ConfirmDialog(
            f"Kill run {run.id}?",
            "Its process is suspended (SIGSTOP), so it can neither answer nor save. "
            f"Once killed, the run can be {later}.",
            yes="Yes, kill it",
        )
        app.push_screen(
            dialog, if_yes(lambda: _request(app, run, jobs.kill, f"{run.id} is killed"))
        )
        return
    dialog = ConfirmDialog(
        f"Stop run {run.id}?",
        f"It {_saves(run)} and its process ends. {ONCE_STOPPED[resumes]}",
        yes="Yes, stop it",
    )
    done = f"{run.id} {_saves(run)} and stops"
    app.push_screen(dialog, if_yes(lambda: _request(app, run, jobs.stop, done)))


def finish(app: App[Any], run: Run) -> None:
    """Makes a result of a run's best step so far, after a yes."""
    dialog = ConfirmDialog(
        f"Finish run {run.id} now?",
        f"The weights of {jobs.read_ended(run.folder).result or 'its best step'} become its "
        "result, without further training. "
        "A finished run cannot be resumed.",
        yes="Yes, finish it",
    )
    done = f"{run.id} makes its result"
    app.push_screen(dialog, if_yes(lambda: _request(app, run, jobs.finish, done)))


def remove(app: App[Any], run: Run, on_done: Callable[[], object]) -> None:
    """Deletes a run, after a yes that names its size, and then calls `on_done`."""

    async def work() -> None:
        size = human_bytes(await asyncio.to_thread(jobs.size_bytes, run.folder))
        dialog = ConfirmDialog(
            f"Delete run {run.id}, {size}?",
            "Its settings, log, checkpoints and result are deleted. This cannot be undone.",
            yes="Yes, delete it",
        )
        done = f"{run.id} is deleted: {size} freed"
        app.push_screen(dialog, if_yes(lambda: _request(app, run, jobs.remove, done, on_done)))

    app.run_worker(work(), group="requests")


def retry(app: "GymApp", run: Run) -> None:
    """Starts a new run that learns the same in smaller steps, after a yes, and opens it."""
    words = ["runs", "retry", run.id]

    async def work() -> None:
        try:
            answer = await ask_command([*words, "--detach"], finish=True)
        except GymError as error:
            text = visible(f"{error.message}\n{error.hint or ''}".strip())
            app.notify(text, severity="error", timeout=ERROR_S, markup=False)
            return
        await app.action_watch(str(answer["run"]))

    dialog = ConfirmDialog(
        f"Start {run.id} again in smaller steps?",
        "A new run takes one row at a time, accumulated to the same steps, with gradient "
        f"checkpointing: it needs less memory and learns the same. {run.id} stays as it is.\n\n"
        f"zoo-gym {' '.join(words)}",
        yes="Yes, start it",
    )
    app.push_screen(dialog, if_yes(lambda: app.run_worker(work(), group="requests")))


def rename(app: App[Any], run: Run, on_done: Callable[[], object]) -> None:
    """Gives a run the name typed in a dialog, and then calls `on_done`; an empty one removes it."""

    def answered(name: str | None) -> None:
        if name is not None:
            done = f"{run.id} is named {name}" if name else f"{run.id} has no name"
            _request(app, run, lambda run: jobs.rename(run, name or run.id), done, on_done)

    app.push_screen(NameDialog(run), answered)


def _request(
    app: App[Any],
    run: Run,
    act: Callable[[Run], object],
    done: str,
    on_done: Callable[[], object] | None = None,
) -> None:
    async def work() -> None:
        try:
            await asyncio.to_thread(act, run)
        except GymError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            text = visible(f"{error.message}{hint}")
            app.notify(text, severity="error", timeout=ERROR_S, markup=False)
            return
        app.notify(done, markup=False)
        if on_done is not None:
            on_done()

    # a worker of the app: closing the screen must not cancel the request half-way
    app.run_worker(work(), group="requests")
