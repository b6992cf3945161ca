"""`zoo-gym experience distill`: lessons become weights, and what they gained is measured."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.cli.ending import fail_run, how_to_continue
from zoo.gym.cli.flags import read_flags, with_model_flags
from zoo.gym.cli.options import Json, Offline, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import Progress
from zoo.gym.config.items import existing, sort_items
from zoo.gym.errors import InputError
from zoo.gym.experience.settings import DistillationConfig
from zoo.gym.jobs import Run, Status, follow, launch, read_status, state_name

if TYPE_CHECKING:
    from zoo.gym.experience.distilling.start import Prepared


@with_model_flags(DistillationConfig)
def distill(
    library: str,
    /,
    *tasks: str,
    yes: Yes = False,
    detach: Switch = False,
    offline: Offline = False,
    as_json: Json = False,
    **settings: object,
) -> int:
    """Trains a model to answer as with the lessons of a library, without them in its prompt.

    Args:
        library: its name, NAME@VERSION, or a file
        tasks: files of tasks like those that the lessons are for, and settings of the training as
            KEY=VALUE, such as max_steps=200
        yes: send tasks to hosts that are new without asking
        detach: return as soon as the run has started
        offline: only models on servers of this machine
        as_json: print one JSON object as stdout's last line
        **settings: how lessons become weights
    """
    from zoo.gym.experience.distilling.start import make_run
    from zoo.gym.experience.models import check_servers
    from zoo.gym.experience.providers.names import require_consent

    out = Output(as_json)
    prepared = _prepare(library, tasks, settings, yes=yes, offline=offline)
    servers = prepared.models.on_servers
    for note in prepared.notes:
        out.say(note)
    split = prepared.split
    held_out = len(split.gate) + len(split.test)
    out.say(f"tasks: {len(split.train)} are learned from, {held_out} measure the result")
    leaves = f"Tasks, lessons and answers leave this machine; cap: {prepared.cap}."
    require_consent(servers, leaves, lambda text: confirmed(text, yes=yes))
    for doubt in check_servers(prepared.models):
        out.say(f"warning: {doubt}")
    run = make_run(prepared)
    out.say(f"run {run.id}: {prepared.config.model} in {run.folder}")
    launch(run)
    if detach:
        out.say(f"it continues in the background; follow it: zoo-gym runs tail {run.id}")
        out.result(_answer(run, read_status(run)))
        return 0
    return finish(run, follow(run, Progress(out)), out)


def _prepare(
    library: str, tasks: tuple[str, ...], settings: dict[str, object], *, yes: bool, offline: bool
) -> "Prepared":
    from zoo.gym.cli.sources import resolve_models
    from zoo.gym.experience.distilling.start import prepare
    from zoo.gym.experience.models import named_models
    from zoo.gym.experience.providers.names import refuse_offline

    if settings.get("model") is None:
        raise InputError(
            "--model: expected the model that is trained, got nothing", code="cli.missing_argument"
        )
    items = sort_items(tasks)
    if items.configs or not items.data:
        got = items.configs[0] if items.configs else "none"
        raise InputError(
            f"TASKS: expected at least one file of tasks, got {got}", code="cli.missing_argument"
        )
    stated = {key: value for key, value in settings.items() if value is not None}
    config = read_flags(DistillationConfig, stated)
    if offline:
        refuse_offline(named_models(config.calls).on_servers)
    resolve_models([config.model], yes=yes, offline=offline)
    return prepare(config, library, [Path(existing(path)) for path in items.data], items.overrides)


def finish(run: Run, status: Status, out: Output) -> int:
    """Reports how a run that distils lessons ended and returns the exit code."""
    answer = _answer(run, status)
    if status.state != "done":
        message = status.message or f"run '{run.id}' is {status.state}"
        return fail_run(out, answer, status, message, status.hint or how_to_continue(run))
    for line in end_lines(run, status):
        out.answer(line)
    out.result(answer)
    return 0


def end_lines(run: Run, status: Status) -> Iterator[str]:
    """Yields what a run that is done measured; nothing for another."""
    metrics = status.metrics
    if status.state != "done" or metrics is None or "verdict" not in metrics:
        return
    yield f"run {run.id} is done: the adapter is {metrics['verdict']}: {status.model}"
    measured: dict[str, dict[str, Any]] = metrics.get("measured") or {}
    for way, tested in measured.items():
        yield f"  {way:<8} {_line(tested)}"
    if not measured:
        yield "  no task was held out: nothing was measured"
    yield f"  delta: {metrics['delta']}, {metrics['delta_verdict']}"


def _line(tested: dict[str, Any]) -> str:
    points = f"{100 * tested['base']:.1f} -> {100 * tested['learned']:.1f} points of 100"
    low, high = tested["interval"] or (-math.inf, math.inf)
    span = f"95 % {100 * low:+.1f} to {100 * high:+.1f}"
    return f"{points}, {100 * tested['effect']:+.1f}, {span} ({tested['tasks']} tasks)"


def _answer(run: Run, status: Status) -> dict[str, object]:
    metrics = status.metrics or {}
    keys = ("library", "verdict", "delta", "delta_bytes", "delta_verdict", "measured", "spent_usd")
    return {
        "run": run.id,
        "state": state_name(status.state, status.request),
        "folder": str(run.folder),
        "model": status.model,
        **{key: metrics.get(key) for key in keys},
    }
