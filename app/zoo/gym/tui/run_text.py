"""The text of a run's screen, made from its history; no widgets."""

from zoo.gym.humanize import duration, figure
from zoo.gym.jobs import Run, State, state_name
from zoo.gym.tui.history import History
from zoo.gym.tui.widgets.meters import Meter

_PENDING = {
    "pause": "pausing after this step",
    "park": "saving and parking after this step",
    "stop": "saving and stopping after this step",
}


def headline(history: History, pending: str | None) -> str:
    """Returns state, step and time left in one sentence."""
    status = history.status
    step = f"step {status.step} of {status.steps}" if status.steps else f"step {status.step}"
    soon = _PENDING.get(pending or "") or _time_left(history)
    ended = state_name(status.state, status.request).capitalize()
    sentences: dict[State, str] = {
        "queued": "Starting the run's worker process",
        "running": f"Training, {step}, {soon}; you can close this window",
        "paused": f"Paused at {step}; the model stays loaded, space resumes",
        "done": f"Done, {step}; {_gain(history)}",
        "failed": f"Failed at {step}: {status.message or 'no reason given'}",
        "interrupted": f"{ended} at {step}; space resumes from its last checkpoint",
    }
    if status.state == "running" and not history.last:
        return "Preparing: reading the data, choosing settings, loading the model"
    if status.state == "queued" and status.message:
        return f"Queued: {status.message}"
    return sentences[status.state]


def meters(history: History) -> list[Meter]:
    """Returns the figures beside the chart; one that is not known yet is a dash."""
    last, best = history.last, history.best()
    held_out = history.held_out[-1] if history.held_out else None
    speed = last.get("tokens_per_s")
    return [
        ("loss", figure(last["loss"]) if "loss" in last else "-"),
        ("held-out", figure(held_out[1]) if held_out else "-"),
        ("best held-out", f"{figure(best[1])} @{best[0]}" if best else "-"),
        ("tokens/s", f"{speed:,.0f}" if isinstance(speed, int | float) else "-"),
        ("tokens", f"{last['tokens']:,}" if isinstance(last.get("tokens"), int) else "-"),
        ("learning rate", figure(last["lr"]) if "lr" in last else "-"),
        ("gradient norm", figure(last["grad_norm"]) if "grad_norm" in last else "-"),
        ("saved at step", "-" if history.saved_step is None else str(history.saved_step)),
    ]


def watched_metrics(history: History) -> list[str]:
    """Returns name and latest value of each metric that the method wants shown."""
    cells: list[str] = []
    for name in history.watched:
        if name in history.metrics:
            cells.append(f"{name} {figure(history.metrics[name])}")
        if name in history.held_out_metrics:
            cells.append(f"held-out {name} {figure(history.held_out_metrics[name])}")
    return cells


def last_notes(history: History, most: int) -> str:
    """Returns the newest messages and the number of older ones; the headline's is left out."""
    notes = [note for note in history.notes if note != f"error: {history.status.message}"]
    shown = notes[-most:]
    older = len(notes) - len(shown)
    return "\n".join([*([f"({older} earlier messages)"] if older else []), *shown])


def what_next(history: History, run: Run) -> str:
    """Returns what a user can do with a run that ended: keys to press, commands to type."""
    match history.status.state:
        case "done":
            return (
                f"Chat with it:      zoo-gym chat --run {run.id}\n"
                f"Make a small file: zoo-gym delta create {run.id}"
            )
        case "failed":
            hint = f"{history.status.hint}. " if history.status.hint else ""
            return f"Next: {hint}l shows the log, y copies the message, space retries"
        case "interrupted":
            return "Next: space resumes it, F makes a result of its best step, D deletes it"
        case _:
            return ""


def _time_left(history: History) -> str:
    left = history.last.get("eta_s")
    return f"about {duration(left)} left" if isinstance(left, int | float) else "time left unknown"


def _gain(history: History) -> str:
    best = history.best()
    if best is None:
        return "nothing was held out to measure it on"
    first = history.held_out[0]
    if first[0]:
        return f"held-out loss {figure(best[1])}"
    return f"held-out loss from {figure(first[1])} to {figure(best[1])}"
