"""The text of a run's screen, made from its history; no widgets."""

from zoo.gym.humanize import counted, duration, figure
from zoo.gym.jobs import Ended, Run, State, state_name
from zoo.gym.retention.compare import short
from zoo.gym.train.planning.smaller import OUT_OF_MEMORY
from zoo.gym.train.result.next_steps import can_be_delta, scores_answers, training_with
from zoo.gym.tui.runs.history import History
from zoo.gym.tui.widgets.meters import Meter

_PENDING = {
    "pause": "pausing after this step, space cancels",
    "park": "saving and parking after this step",
    "stop": "saving and stopping after this step",
}


def headline(
    history: History, pending: str | None, ended: Ended | None = None, *, finishing: bool = False
) -> str:
    """Returns state, step and time left in one sentence.

    Args:
        history: of the run.
        pending: the request that its worker has not followed yet.
        ended: what a run without a process contains.
        finishing: whether its worker only makes the result of an early finish.
    """
    status = history.status
    if finishing and not (status.state == "queued" and status.message):
        return f"Making its result at step {status.step}; you can close this window"
    step = f"step {status.step} of {status.steps}" if status.steps else f"step {status.step}"
    soon = _PENDING.get(pending or "") or _time_left(history)
    sentences: dict[State, str] = {
        "queued": "Starting the run's worker process",
        "running": f"Training, {step}, {soon}; you can close this window",
        "paused": f"Paused at {step}; the model stays loaded, space resumes",
        "done": f"Done, {step}; {_gain(history)}",
        "failed": f"Failed at {step}: {status.message or 'no reason given'}",
        "interrupted": _interrupted(history, step, ended),
    }
    if status.state == "running" and not history.last:
        return "Preparing: reading the data, choosing settings, loading the model"
    if status.state == "queued" and status.message:
        return f"Queued: {status.message}"
    return sentences[status.state]


def _interrupted(history: History, step: str, ended: Ended | None) -> str:
    name = state_name(history.status.state, history.status.request).capitalize()
    if ended is not None and not ended.step:
        return f"{name} before its first checkpoint; space starts it again"
    if ended is not None and not ended.resumable:
        return f"{name} at {step}; it cannot be resumed (save_only_model), F makes a result"
    return f"{name} at {step}; space resumes from its last checkpoint"


def meters(history: History) -> list[Meter]:
    """Returns the figures beside the chart; one that is not known yet is a dash."""
    last, best = history.last, history.best()
    held_out = history.scores[-1] if history.scores else None
    name = "held-out" if history.decides == "loss" else f"held-out {history.decides}"
    speed = last.get("tokens_per_s")
    return [
        ("loss", figure(last["loss"]) if "loss" in last else "-"),
        (name, figure(held_out[1]) if held_out else "-"),
        (f"best {name}", f"{figure(best[1])} @{best[0]}" if best else "-"),
        ("tokens/s", f"{speed:,.0f}" if isinstance(speed, int | float) else "-"),
        ("tokens", f"{last['tokens']:,}" if isinstance(last.get("tokens"), int) else "-"),
        ("learning rate", figure(last["lr"]) if "lr" in last else "-"),
        ("gradient norm", figure(last["grad_norm"]) if "grad_norm" in last else "-"),
        ("saved at step", "-" if history.saved_step is None else str(history.saved_step)),
    ]


def watched_metrics(history: History) -> list[str]:
    """Returns name and latest value of each metric that the method wants shown.

    The held-out value of the metric that decides is among the meters.
    """
    cells: list[str] = []
    for name in history.watched:
        if name in history.metrics:
            cells.append(f"{name} {figure(history.metrics[name])}")
        if name in history.held_out_metrics and name != history.decides:
            cells.append(f"held-out {name} {figure(history.held_out_metrics[name])}")
    return cells


def newest_answers(history: History, most: int, width: int) -> str:
    """Returns prompts of the data, held-out ones first, each with its newest answer on one line."""
    asked = width // 3
    return "\n".join(
        f"{short(str(each.get('prompt')), asked)}  {short(str(each.get('now')), width - asked - 8)}"
        for each in history.answers[:most]
    )


def last_notes(history: History, most: int) -> str:
    """Returns the newest messages and the number of older ones; the headline's is left out."""
    notes = [note for note in history.notes if note != f"error: {history.status.message}"]
    newest = notes[-most:]
    older = len(notes) - len(newest)
    return "\n".join([*([f"({counted(older, 'earlier message')})"] if older else []), *newest])


def what_next(history: History, run: Run, ended: Ended | None = None) -> str:
    """Returns what a user can do with a run that ended: keys to press, commands to type."""
    ended = ended or Ended(step=0, best_step=0, resumable=True)
    match history.status.state:
        case "done" if scores_answers(run.result):
            return f"Learn from its scores: {training_with(run.result)}"
        case "done":
            small = f"\nMake a small file: zoo-gym delta create {run.id}  (6: Share)"
            chat = f"zoo-gym chat --run {run.id}  (c: beside its base; e: export)"
            return f"Chat with it:      {chat}" + (small if can_be_delta(run.result) else "")
        case "failed":
            hint = f"{history.status.hint}. " if history.status.hint else ""
            smaller = ["M starts a new run in smaller steps"]
            fits = history.status.code not in OUT_OF_MEMORY
            keys = [] if fits else smaller
            keys += ["l shows the log", "y copies the message", *_keys(ended, "space retries")]
            return f"Next: {hint}{', '.join(keys)}"
        case "interrupted":
            return f"Next: {', '.join([*_keys(ended, 'space resumes it'), 'D deletes it'])}"
        case _:
            return ""


def _keys(ended: Ended, resume: str) -> list[str]:
    """Returns the keys that resume and finish a run, where they can."""
    result = f"F makes a result of {ended.result}"
    return [resume] * ended.resumable + [result] * (ended.result is not None)


def _time_left(history: History) -> str:
    left = history.last.get("eta_s")
    return f"about {duration(left)} left" if isinstance(left, int | float) else "time left unknown"


def _gain(history: History) -> str:
    best = history.best()
    if best is None:
        return "nothing was held out to measure it on"
    first, name = history.scores[0], f"held-out {history.decides}"
    if first[0]:
        return f"{name} {figure(best[1])}"
    return f"{name} from {figure(first[1])} to {figure(best[1])}"
