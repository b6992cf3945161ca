"""Reports the end of a run that a command followed: text, JSON, and the exit code."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from zoo.gym.cli.output import Output
from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.errors import EXIT_CODES, GymError, InterruptedRunError, exit_code
from zoo.gym.humanize import duration, figure, human_bytes
from zoo.gym.jobs import Run, Status, read_ended, read_status, state_name
from zoo.gym.jobs.tracking import commands_of
from zoo.gym.retention.compare import sentence_of
from zoo.gym.train.result.few_bits import codes_of
from zoo.gym.train.result.next_steps import can_be_delta, scores_answers, training_with
from zoo.gym.tuned.runs import run_config

TIED = "the margins are all 0 before training"
"""Why an accuracy before training is 0: nothing differs from the reference yet."""

_LABELS = {
    "evaluation_rows": "held-out rows",
    "training_s": "time of training",
    "evaluation_s": "time of evaluations",
    "training_cpu_s": "CPU time of training",
    "processes": "processes",
    "peak_host_bytes": "peak memory",
    "peak_device_bytes": "peak memory of the device",
}
"""Names of a result's metrics for people."""

_FIGURES = {"tensorboard": "shows the figures", "wandb": "sends the figures to W&B"}


def finish(run: Run, status: Status, out: Output) -> int:
    """Reports how a run ended and returns the exit code of its worker."""
    answer: dict[str, object] = _answer(run, status)
    if status.state == "done":
        _print_result(run, status, out)
        out.result(answer)
        return 0
    message, hint = status.message or f"run '{run.id}' is {status.state}", status.hint
    if status.state == "interrupted":
        message = f"run '{run.id}' was {_how_it_ended(status, message)}"
        hint = hint or how_to_continue(run)
    return fail_run(out, answer, status, message, hint)


def _how_it_ended(status: Status, message: str) -> str:
    """Returns `stopped at step 3 of 8`, or for a killed run `interrupted: ` and the reason."""
    if status.request is None or not message.startswith(status.request):
        return f"interrupted: {message}"
    return f"{state_name(status.state, status.request)} {message.partition(' ')[2]}"


def how_to_continue(run: Run) -> str:
    """Returns the hint for a run that was interrupted."""
    ended = read_ended(run.folder)
    if not ended.resumable:
        return f"make a result of {ended.result}: zoo-gym runs finish {run.id}"
    return f"resume it: zoo-gym runs resume {run.id}"


def fail_run(
    out: Output, answer: Mapping[str, object], status: Status, message: str, hint: str | None
) -> int:
    """Prints why a run failed or was interrupted beside an answer; returns its exit code."""
    kind = InterruptedRunError if status.state == "interrupted" else GymError
    error = kind(message, hint=hint, code=status.code)
    return _fail(out, answer, error, status.exit_code or EXIT_CODES[kind])


def fail(out: Output, answer: Mapping[str, object], error: GymError) -> int:
    """Prints an error beside an answer; returns its exit code."""
    return _fail(out, answer, error, exit_code(error))


def _fail(out: Output, answer: Mapping[str, object], error: GymError, ends_with: int) -> int:
    for line in error.message.splitlines():
        out.say(f"zoo-gym: error: {line}")
    if error.hint:
        out.say(f"hint: {error.hint}")
    fields = {"code": error.code, "message": error.message, "hint": error.hint}
    out.result({**answer, "error": {**fields, "exit_code": ends_with}})
    return ends_with


def started(run: Run, out: Output) -> int:
    """Reports that a run continues in the background."""
    out.say(f"run {run.id} continues in the background; follow it: zoo-gym runs tail {run.id}")
    out.result(_answer(run, read_status(run)))
    return 0


def measured(metrics: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yields what a run measured, in words; see `metrics_of` for the keys.

    Without held-out rows there are no losses to report, and of a host without a device no memory.
    """
    has_rows = bool(metrics.get("evaluation_rows"))
    for key, value in metrics.items():
        if (not value and (key.startswith("peak_") or key == "best_step")) or key == "base_tied":
            continue
        if key == "retention":
            yield "general knowledge", sentence_of(value)
            continue
        words = _value(key, value) if has_rows or value is not None else "not measured"
        is_tie = key.startswith("base_") and metrics.get("base_tied") is True
        yield _label(key), f"{words}, as {TIED}" if is_tie else words


def _label(key: str) -> str:
    head, _, rest = key.partition("_")
    if head == "base":
        return f"held-out {rest} before training"
    if head == "best" and rest != "step":
        return f"best held-out {rest}"
    return _LABELS.get(key, key.replace("_", " "))


def _value(key: str, value: object) -> str:
    if isinstance(value, int | float):
        if key.endswith("_bytes"):
            return human_bytes(int(value))
        if key.endswith("_s"):
            return duration(value)
        if isinstance(value, int):
            return f"{value:,}"
    return figure(value)


def _answer(run: Run, status: Status) -> dict[str, object]:
    return {
        "run": run.id,
        "state": state_name(status.state, status.request),
        "folder": str(run.folder),
        "model": status.model,
        "metrics": dict(status.metrics) if status.metrics is not None else None,
    }


def _print_result(run: Run, status: Status, out: Output) -> None:
    for key, value in measured(status.metrics or {}):
        out.say(f"  {key}: {value}")
    out.answer(f"run {run.id} is done: {status.model}")
    if (codes := _codes(run)) is not None:
        out.say(f"the base was in {codes}: README.md there says how peft loads it")
    out.say("next:")
    if scores_answers(run.result):
        out.say(f"  {training_with(Path(str(status.model)))}    learns from its scores")
    else:
        if can_be_delta(run.result):
            out.say(f"  zoo-gym delta create {run.id}    compresses the result to a small file")
        out.say(f"  zoo-gym eval {run.id}    measures it beside its base")
        written = "writes it for Ollama (lmstudio: for LM Studio)"
        out.say(f"  zoo-gym export {run.id} --format ollama    {written}")
        out.say(f"  zoo-gym chat --run {run.id}      chats with it")
        served = f"--variant {run.id}" if is_adapter(run.result) else f"--model {run.result}"
        out.say(f"  zoo-gym serve {served}    answers other programs with it")
    for command in commands_of(run).values():
        out.say(f"  {command}    {_FIGURES[command.partition(' ')[0]]}")
    sys.stderr.flush()


def _codes(run: Run) -> str | None:
    """Returns the codes of the base; None if it has none, or the settings cannot be read.

    The settings of an older version may be refused today; the run is done all the same.
    """
    try:
        return codes_of(run_config(run))
    except GymError:
        return None
