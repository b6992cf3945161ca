"""`zoo-gym runs`: lists, shows, follows and controls runs through their files."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from zoo.gym import jobs
from zoo.gym.cli.ending import fail, finish, measured, started
from zoo.gym.cli.options import Json, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import Progress
from zoo.gym.errors import GymError, InputError
from zoo.gym.humanize import human_bytes
from zoo.gym.jobs.run import is_distillation, is_experience
from zoo.gym.terminal import json_line
from zoo.gym.tuned.runs import trained_model

_ANSWER_S = 1.0
CHANGES = Parameter(name="--set", metavar="KEY=VALUE", negative=(), show_default=False)

WAIT_S = 600.0
"""How long a request to a worker may take; steps can be long."""


KINDS = {
    "lessons": "This run learns lessons in text: it trains no weights, and has no model as result.",
    "distillation": "This run turns the lessons of a library into an adapter and its delta.",
}
"""What is special about a run, in a sentence."""

_ONLY_JSON = frozenset({"kind", "metrics", "created", "updated", "request", "decides", "best"})


def list_runs(*, as_json: Json = False) -> int:
    """Lists the runs, newest first.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    rows = jobs.list_runs()
    names = {row.id: jobs.Run(Path(row.folder)).name for row in rows}
    states = {
        row.id: jobs.displayed_state(jobs.Run(Path(row.folder)), row.state, row.request)
        for row in rows
    }
    kinds = {row.id: jobs.kind_of(jobs.Run(Path(row.folder))) for row in rows}
    for row in rows:
        step = f"{row.step}/{row.steps}" if row.steps else str(row.step)
        fault = f"damaged: {row.fault}" if row.fault else ""
        name = f"  {names[row.id]}" if names[row.id] else ""
        kind = kinds[row.id]
        stage = kind if kind != "training" else row.stage
        method = f" ({stage})" if stage not in {None, "sft"} else ""
        model = f"{row.model or fault}{method}"
        line = f"{row.id}  {states[row.id]:<11}  step {step:<11}  {model}{name}"
        out.answer(line.rstrip())
    if not rows:
        out.say("no runs yet; start one with: zoo-gym train FILE --model zen-nano")
    plain = [
        {"id": row.id, "name": names[row.id], "kind": kinds[row.id]}
        | row.as_json()
        | {"state": states[row.id]}
        for row in rows
    ]
    out.result({"runs": plain})
    return 0


def show(run: str, /, *, as_json: Json = False) -> int:
    """Shows one run: its state, settings and result.

    Args:
        run: a run's id such as r0001, its name, or last
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.evaluate.stored import lines_of, stored_results

    out, opened = Output(as_json), jobs.open_run(run)
    status = jobs.reconcile(opened)
    kind = jobs.kind_of(opened)
    named = {"id": opened.id, "name": opened.name, "kind": kind, "folder": str(opened.folder)}
    answer = named | asdict(status)
    if kind in KINDS:
        out.answer(KINDS[kind])
    del answer["offset"], answer["reached"], answer["saved_best"]
    answer["model"] = trained_model(opened, status.model)
    answer["state"] = jobs.displayed_state(opened, status.state, status.request)
    for key, value in answer.items():
        if value is not None and key not in _ONLY_JSON:
            out.answer(f"{key:<10} {value}")
    lines = [f"  {key}: {value}" for key, value in measured(status.metrics or {}) if key != "steps"]
    if lines:
        out.answer("\n".join(["measured", *lines]))
    if evals := list(stored_results(opened)):
        figures = (f"  {line}" for each in evals for line in lines_of(each))
        out.answer("\n".join(["evaluated", *figures]))
    settings, fault = jobs.stored_yaml(opened)
    if fault is not None:
        hint = f"restore the file: '{opened.config_file}'"
        return fail(out, answer, InputError(fault, hint=hint, code="cli.config_damaged"))
    lines = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).splitlines()
    out.answer("settings\n" + "\n".join(f"  {line}" for line in lines))
    out.result(answer | {"evals": evals, "config": settings})
    return 0


def tail(run: str, /, *, as_json: Json = False) -> int:
    """Prints a run's progress as `train` does, until it ends; Ctrl-C stops only the printing.

    Args:
        run: a run's id such as r0001, its name, or last
        as_json: print one JSON object as stdout's last line
    """
    out, opened = Output(as_json), jobs.open_run(run)
    status, progress, kind = jobs.Status(), _progress(opened, out), jobs.kind_of(opened)
    if kind in KINDS:
        out.say(KINDS[kind])
    for events, now in jobs.watch(opened):
        status = now
        for event in events:
            if as_json:
                print(json_line(event), flush=True)
            else:
                progress(event)
    state = jobs.displayed_state(opened, status.state, status.request)
    if not as_json:
        for line in _end_lines(opened, status):
            out.answer(line)
    model = trained_model(opened, status.model)
    # no `kind`: that of the lines before is an event's
    out.result({"run": opened.id, "state": state, "model": model})
    return 0


def _end_lines(run: jobs.Run, status: jobs.Status) -> Iterator[str]:
    """Yields what a run about lessons found; of a training its events say all."""
    match jobs.kind_of(run):
        case "lessons":
            from zoo.gym.cli.experience import end_lines

            yield from end_lines(run, status)
        case "distillation":
            from zoo.gym.cli.distill import end_lines as lines

            yield from lines(run, status)
        case "training":
            return


def _progress(run: jobs.Run, out: Output) -> Callable[[jobs.Event], object]:
    if not is_experience(run):
        return Progress(out, as_log=True)
    from zoo.gym.cli.experience import show_event

    return partial(show_event, out, as_log=True)


def pause(run: str, /, *, park: Switch = False, as_json: Json = False) -> int:
    """Pauses a run: its process and the loaded model stay.

    Args:
        run: a run's id such as r0001, its name, or last
        park: save and end the process instead, which frees the device
        as_json: print one JSON object as stdout's last line
    """
    opened = jobs.open_run(run)
    (jobs.park if park else jobs.pause)(opened)
    return _await_rest(opened, Output(as_json), held=not park)


def stop(run: str, /, *, kill: Switch = False, as_json: Json = False) -> int:
    """Saves a run and ends its process; it can be resumed.

    Args:
        run: a run's id such as r0001, its name, or last
        kill: end the process at once, without saving; for one that does not respond
        as_json: print one JSON object as stdout's last line
    """
    opened = jobs.open_run(run)
    (jobs.kill if kill else jobs.stop)(opened)
    return _await_rest(opened, Output(as_json), held=False)


def resume(
    run: str,
    /,
    *,
    changes: Annotated[tuple[str, ...], CHANGES] = (),
    detach: Switch = False,
    as_json: Json = False,
) -> int:
    """Resumes a paused, stopped or failed run with its original settings.

    It follows the run until it ends, as `train` does; Ctrl-C saves and stops it.

    Args:
        run: a run's id such as r0001, its name, or last
        changes: change max_steps, learning_rate, save_steps, eval_steps or device; of a run of
            lessons max_usd or max_tokens
        detach: return as soon as the run continues
        as_json: print one JSON object as stdout's last line
    """
    out, opened = Output(as_json), jobs.open_run(run)
    last = jobs.read_status(opened).reached
    previous = jobs.resume(opened, changes)
    for change in changes:
        out.say(f"from now on: {change}")
    if is_experience(opened):
        out.say(
            f"run {opened.id} resumes: answers so far are read from the journal, not asked again"
        )
    else:
        out.say(f"run {opened.id} resumes from step {previous.step}")
    if previous.step < last and not is_experience(opened):
        out.say(
            f"steps {previous.step + 1} to {last} are trained again: they are after the checkpoint"
        )
    if detach:
        return started(opened, out)
    if is_experience(opened):
        from zoo.gym.cli import experience

        show = partial(experience.show_event, out)
        return experience.finish(opened, jobs.follow(opened, show, offset=previous.offset), out)
    if is_distillation(opened):
        from zoo.gym.cli import distill

        return distill.finish(
            opened, jobs.follow(opened, Progress(out), offset=previous.offset), out
        )
    progress = Progress(out)
    status = jobs.follow(opened, progress, offset=previous.offset, on_stop=progress.stopping)
    return finish(opened, status, out)


def finish_run(run: str, /, *, yes: Yes = False, as_json: Json = False) -> int:
    """Ends a run early: its best step so far becomes the result.

    A live run is stopped first, after a confirmation.

    Args:
        run: a run's id such as r0001, its name, or last
        yes: stop a live run without a confirmation
        as_json: print one JSON object as stdout's last line
    """
    out, opened = Output(as_json), jobs.open_run(run)
    status = jobs.reconcile(opened)
    if status.live and not status.step:
        raise InputError(
            f"run '{opened.id}' has nothing to keep yet: expected a step, got none",
            hint=f"zoo-gym runs stop {opened.id}, or zoo-gym runs tail {opened.id}",
            code="cli.nothing_to_keep",
        )
    if status.live:
        _confirm_finish(opened, status, yes=yes)
        jobs.stop(opened)
        _wait_for_rest(opened, held=False)
    previous = jobs.finish(opened)
    return finish(opened, jobs.follow(opened, Progress(out), offset=previous.offset), out)


def rename(run: str, name: str, /, *, as_json: Json = False) -> int:
    """Gives a run a name, which every command then accepts in place of the id.

    Args:
        run: a run's id such as r0001, its name, or last
        name: the new name; the run's own id removes the name
        as_json: print one JSON object as stdout's last line
    """
    out, opened = Output(as_json), jobs.open_run(run)
    jobs.rename(opened, name)
    out.answer(f"run {opened.id} is named {opened.name}" if opened.name else f"run {opened.id}")
    out.result({"run": opened.id, "name": opened.name})
    return 0


def remove(run: str, /, *, yes: Yes = False, as_json: Json = False) -> int:
    """Deletes a run with its settings, log, checkpoints and result, after a confirmation.

    Args:
        run: a run's id such as r0001, its name, or last
        yes: delete without a confirmation
        as_json: print one JSON object as stdout's last line
    """
    out, opened = Output(as_json), jobs.open_run(run)
    freed = jobs.size_bytes(opened.folder)
    question = f"Permanently delete run {opened.id} ({human_bytes(freed)})? [y/N] "
    if not confirmed(question, yes=yes):
        raise InputError(
            f"run '{opened.id}' was not deleted: expected a confirmation",
            hint=f"delete it without a confirmation: zoo-gym runs remove {opened.id} --yes",
            code="cli.not_confirmed",
        )
    jobs.remove(opened)
    out.answer(f"run {opened.id} deleted, {human_bytes(freed)} freed")
    out.result({"run": opened.id, "freed_bytes": freed})
    return 0


def _confirm_finish(run: jobs.Run, status: jobs.Status, *, yes: bool) -> None:
    at = f"{status.state} at step {status.step}" + (f" of {status.steps}" if status.steps else "")
    if not confirmed(f"Run {run.id} is {at}. End it for good? [y/N] ", yes=yes):
        raise InputError(
            f"run '{run.id}' was not finished: expected a confirmation, because it is {at}",
            hint=f"end it without a confirmation: zoo-gym runs finish {run.id} --yes",
            code="cli.not_confirmed",
        )


def _await_rest(run: jobs.Run, out: Output, *, held: bool) -> int:
    """Waits until a run has ended or, if `held`, paused, and reports which."""
    status = _wait_for_rest(run, held=held)
    state = jobs.state_name(status.state, status.request)
    out.answer(f"run {run.id} is {state} at step {status.step}")
    if status.state == "interrupted":
        ended = jobs.read_ended(run.folder)
        if ended.resumable:
            does = "continues it" if ended.step else "starts it again"
            out.say(f"  zoo-gym runs resume {run.id}    {does}")
        if ended.result:
            out.say(f"  zoo-gym runs finish {run.id}    makes a result of {ended.result}")
    out.result({"run": run.id, "state": state, "step": status.step})
    return 0


def _wait_for_rest(run: jobs.Run, *, held: bool) -> jobs.Status:
    began = time.monotonic()
    deadline, checked = began + WAIT_S, began
    status = jobs.Status()
    for _, status in jobs.watch(run):
        if held and status.state == "paused":
            break
        if status.live and time.monotonic() > deadline:
            raise GymError(
                f"run '{run.id}' has the request, but its step takes over {WAIT_S:g} s",
                code="cli.step_too_long",
            )
        if status.live and time.monotonic() - checked > _ANSWER_S:
            jobs.check_answers(run)
            checked = time.monotonic()
    return status
