"""The text of the screen of a run about lessons, made from its history; no widgets.

`lessons_*` is of runs that learn lessons, `distillation_*` of those that turn them into weights.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from zoo.gym.humanize import counted, figure, money
from zoo.gym.jobs import Event, Run, State, state_name
from zoo.gym.tui.runs.history import History
from zoo.gym.tui.runs.lessons_run import LessonsRun, Names
from zoo.gym.tui.widgets.meters import Meter

HELP = """
A run that learns lessons changes no weights and has no loss. Each of its steps has the mean \
reward of the answers, the edits that were tried, and what the gate found: the edited library \
against the one before, on tasks that the teacher never sees. The verdict is of the test: proven \
if its whole 95 % interval is above 0.

The run does not need this window: you can close it and open the run again later.
"""

_NO_TEACHER = "its own teacher"


def lessons_title(names: Names) -> str:
    """Returns what a run that learns lessons is about."""
    teacher = f"teacher {names.teacher}" if names.teacher else _NO_TEACHER
    return f"lessons for {names.model}, {teacher}"


def distillation_title(names: Names) -> str:
    """Returns what a run that distils lessons is about."""
    teacher = f", teacher {names.teacher}" if names.teacher else ""
    return f"distils {names.library} into {names.model}{teacher}"


def lessons_headline(history: History, pending: str | None) -> str:
    """Returns the state of a run that learns lessons, and its verdict, in one sentence."""
    status = history.status
    steps = f"step {status.step} of {status.steps}" if status.steps else f"step {status.step}"
    name = state_name(status.state, status.request).capitalize()
    soon = f", {pending} requested" if pending else ""
    waits = f"Queued: {status.message}" if status.message else "Starting the worker process"
    sentences: dict[State, str] = {
        "queued": waits,
        "running": f"Learning lessons, {steps} done{soon}; you can close this window",
        "paused": f"Paused, {steps} done; space resumes",
        "done": f"Done: {lessons_verdict(status.metrics or {})}",
        "failed": f"Failed, {steps} done: {status.message or 'no reason given'}",
        "interrupted": f"{name}, {steps} done; space resumes it, answers so far are kept",
    }
    return sentences[status.state]


def lessons_verdict(metrics: Mapping[str, Any]) -> str:
    """Returns what was kept and what the test found: `parcels@1 is proven: +53.3 points, ...`."""
    library = metrics.get("library")
    if library is None:
        return "nothing was kept"
    effect, low, high = (_number(metrics.get(key)) for key in ("effect", "low", "high"))
    if effect is None:
        return f"{library} is {metrics.get('verdict')}: it was not tested"
    verdict = f"{library} is {metrics.get('verdict')}: {100 * effect:+.1f} points of 100"
    if low is None or high is None:
        return f"{verdict}, with too few tasks for an interval"
    return f"{verdict}, 95 % {100 * low:+.1f} to {100 * high:+.1f}"


def lessons_meters(history: History, lessons_run: LessonsRun) -> list[Meter]:
    """Returns the figures of a run that learns lessons; one that is not known yet is a dash."""
    metrics, spent = history.status.metrics or {}, lessons_run.spending
    tokens = sum(
        int(_number(metrics.get(f"{kind}_tokens")) or 0) for kind in ("prompt", "completion")
    )
    calls, usd = _number(metrics.get("calls")), _number(metrics.get("spent_usd"))
    lessons = metrics.get("lessons", history.last.get("lessons"))
    meters = [
        ("calls", f"{int(calls if calls is not None else spent.calls):,}"),
        ("tokens", f"{tokens or spent.tokens:,}"),
        ("spent", money(usd if usd is not None else spent.usd)),
        ("cap", str(history.plan.get("cap", "-")).replace("no cap", "none")),
        ("lessons", "-" if lessons is None else str(lessons)),
    ]
    for key, name in (("reward_without", "reward without"), ("reward_with", "reward with")):
        meters += [(name, figure(metrics[key]))] if metrics.get(key) is not None else []
    if metrics.get("tokens_added"):
        meters.append(("tokens added", str(metrics["tokens_added"])))
    return meters


def lessons_body(history: History, lessons: LessonsRun) -> str:
    """Returns tasks, steps and lessons of a run that learns lessons, a line each."""
    names = lessons.names
    lines = [f"model: {names.model}; teacher: {names.teacher or 'the same'}", *_tasks(history.plan)]
    lines += [_step(event) for _, event in sorted(history.lesson_steps.items())]
    if not history.lesson_steps and history.status.live:
        lines.append("The first step is not done yet.")
    edits = _edits(history)
    if lessons.lessons:
        lines += ["", f"{counted(len(lessons.lessons), 'lesson')} kept:", *_list(lessons.lessons)]
    elif history.status.state == "done":
        lines += ["", "No lesson was kept."]
        lines += [f"{counted(len(edits), 'edit')} tried:", *_list(edits)] if edits else []
    elif edits:
        lines += ["", f"{counted(len(edits), 'edit')} of the last step:", *_list(edits)]
    return "\n".join(lines)


def lessons_next(history: History, run: Run, names: Names) -> str:
    """Returns what a user can do with a run that learned lessons."""
    library = (history.status.metrics or {}).get("library")
    match history.status.state:
        case "done" if library is not None:
            use = f"zoo-gym chat --model {names.model_id} --experience {names.library}"
            if names.on_server:
                use = f"zoo-gym experience infer QUERY --model {names.model_id}"
                use += f" --library {names.library}"
            show = f"zoo-gym experience show {library}  (6: Share)"
            return f"Show the lessons: {show}\nUse them: {use}"
        case "done":
            return f"Show its figures: zoo-gym runs show {run.id}"
        case "failed":
            hint = f"{history.status.hint}. " if history.status.hint else ""
            return f"Next: {hint}space retries, l shows the log, y copies the message"
        case "interrupted":
            hint = f"{history.status.hint}. " if history.status.hint else ""
            return f"Next: {hint}space resumes it, D deletes it"
        case _:
            return ""


def distillation_verdict(history: History) -> str:
    """Returns what each way of answering gained, or that it is not measured yet."""
    metrics = history.status.metrics or {}
    measured = metrics.get("measured")
    if not isinstance(measured, dict):
        return ""
    if not measured:
        return "No task was held out, so nothing was measured: unproven."
    ways = cast("Mapping[str, Mapping[str, Any]]", measured)
    lines = ["Gained over the model alone, in points of 100, on held-out tasks:"]
    for way, tested in ways.items():
        name = "lessons in prompt" if way == "library" else way
        ends: list[float] = tested["interval"] or []
        span = " to ".join(f"{100 * end:+.1f}" for end in ends)
        span = f"95 % {span}" if ends else "no interval"
        lines.append(f"{name}: {100 * tested['effect']:+.1f}, {span}, {tested['verdict']}")
    return "\n".join(lines)


def distillation_headline(history: History) -> str | None:
    """Returns the state of a distillation where it is not that of any training."""
    status = history.status
    if status.state == "done":
        verdict = (status.metrics or {}).get("verdict", "unproven")
        return f"Done, step {status.step} of {status.steps}; the adapter is {verdict}"
    if status.state == "running" and status.steps and status.step == status.steps:
        return "Trained; measuring what was gained; you can close this window"
    return None


def distillation_next(history: History, run: Run) -> str:
    """Returns what a user can do with the result of a distillation; its delta is already made."""
    delta = (history.status.metrics or {}).get("delta")
    chat = f"Chat with it: zoo-gym chat --run {run.id}"
    return f"{chat}\nIts delta:    {delta}" if delta else chat


def _tasks(plan: Event) -> Iterator[str]:
    tasks = plan.get("tasks")
    if isinstance(tasks, dict):
        of = cast("Mapping[str, object]", tasks)
        yield f"tasks: {of.get('train')} teach, {of.get('gate')} gate, {of.get('test')} test"


def _step(event: Event) -> str:
    counts, gate = event.get("counts"), event.get("gate")
    groups = cast("Mapping[str, object]", counts) if isinstance(counts, dict) else {}
    line = f"step {event.get('step')}: reward {figure(event.get('reward'))}"
    line += f", {groups.get('mixed groups', 0)} of {groups.get('groups', 0)} groups mixed"
    line += f", {counted(len(event.get('edits') or ()), 'edit')}"
    if isinstance(gate, dict):
        gated = cast("Mapping[str, Any]", gate)
        line += f"; gate: {gated.get('verdict')}"
        effect = _number(gated.get("effect"))
        line += "" if effect is None else f", {100 * effect:+.1f} points"
    return f"{line}; {event.get('lessons')} lessons"


def _edits(history: History) -> list[str]:
    last = max(history.lesson_steps, default=None)
    edits = None if last is None else history.lesson_steps[last].get("edits")
    return [str(edit) for edit in cast("list[object]", edits)] if isinstance(edits, list) else []


def _list(texts: "tuple[str, ...] | list[str]") -> list[str]:
    return [f"- {text}" for text in texts]


def _number(value: object) -> float | None:
    return float(value) if type(value) is int or type(value) is float else None
