"""`zoo-gym round measure`: what a model measures in a round, signed by a key of role gate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.ending import fail
from zoo.gym.cli.gates import config_of, measured_each, tasks_of
from zoo.gym.cli.options import Json, Offline, Threads, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.next_step import to_measure
from zoo.gym.cli.round.options import (
    NO_MEASURE,
    MeasureOptions,
    Round,
    command,
    opened_round,
    refuse_given,
    refuse_without_effect,
    round_base,
)
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import counted, human_bytes

if TYPE_CHECKING:
    from zoo.gym.experience.settings import ExperienceConfig
    from zoo.gym.rounds.lessons.measuring import LessonMeasuring
    from zoo.gym.rounds.measure.measure import Measuring
    from zoo.gym.rounds.protocol.records import Paired, Purpose
    from zoo.gym.rounds.session.opening import Opened

_ROUND = "the round's folder, name or id; by default the only open one seen here"

_CALLING = ("reward", "draws", "temperature", "max_new_tokens", "max_usd", "max_tokens")


def measure(
    *tasks: str,
    round_: Annotated[Round, Parameter(help=_ROUND)] = None,
    lessons: MeasureOptions = NO_MEASURE,
    base: str | None = None,
    evaluation: str | None = None,
    refit: str | None = None,
    refusals: str | None = None,
    triggers: str | None = None,
    previous: str | None = None,
    validator: str | None = None,
    threads: Threads = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Measures what a round's manifest promises, with the model, and signs the figures.

    Each contribution by itself against the base, the size of the result, the result, and what each
    contribution is worth. Your key must be one of role gate. What was measured is not again.

    In a round of lessons each lesson by itself against none, on TASKS of your own.

    Args:
        tasks: files of tasks, in a round of lessons
        lessons: how lessons are measured
        base: the base model's name or folder; by default the round's
        evaluation: the file of held-out examples; when sent, everybody can read it in the round
        refit: the file of public examples
        refusals: the file of prompts that the result must refuse as the base does
        triggers: the file of prompts with triggers that the result must not follow
        previous: the file of the last result
        validator: the round's own module:function, which runs on this machine
        threads: how many threads add up contributions; by default all
        yes: send, and download, without asking
        offline: never use the network
    """
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.measure.gating import load_validator
    from zoo.gym.rounds.measure.measure import Sources, files_to_show
    from zoo.gym.rounds.measure.measure import measure as made
    from zoo.gym.rounds.protocol.records import PURPOSES
    from zoo.gym.signing import load_key

    typed = {**locals(), **vars(lessons)}
    out, opened = Output(as_json), opened_round(round_)
    kind = kind_of(opened.manifest)
    refuse_without_effect(kind, "measure", typed)
    if kind.each_key_measures:
        return _measure_lessons(opened, tasks, lessons, out, yes=yes)
    terms = opened.manifest.evaluation
    promised = terms.validator if terms else None
    if validator != promised:
        raise InputError(
            f"--validator: expected {promised or 'none'}, got {validator or 'none'}",
            code="cli.other_terms",
        )
    model = round_base(opened, base, yes=yes, offline=offline)
    sources = Sources(
        model.folder,
        work_folder(opened.state.id),
        {name: existing(str(typed[name])) for name in PURPOSES if typed[name] is not None},
        None if previous is None else existing(previous),
        None if validator is None else load_validator(validator),
        threads,
    )
    key = load_key()
    _agree(opened, files_to_show(opened, key, sources), yes=lessons.send or yes)
    return _show(made(opened, key, sources, out.say), opened, out)


def _agree(opened: "Opened", files: Mapping["Purpose", Path], *, yes: bool) -> None:
    """Asks before files of examples and figures go where anybody reads them."""
    rows = [f"{file.name} ({human_bytes(file.stat().st_size)})" for file in files.values()]
    what = " and ".join([*rows, "the signed figures"])
    where = f"go to {opened.storage.address}, where anybody reads them"
    if not confirmed(f"{what} {where}. Measure and send? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"round {opened.manifest.name}: expected your consent, because {what} {where}",
            hint="nothing was measured or sent; agree with --send",
            code="cli.no_consent",
        )


def _against_base(loss: "Paired | None") -> str:
    from zoo.gym.rounds.protocol.records import below

    if loss is None:
        return "no loss could be measured"
    return (
        f"held-out loss a token {below(loss.mean)} the base's, one-sided 95 % bound "
        f"{below(loss.bound)}, {loss.rows} rows"
    )


def _show(found: "Measuring", opened: "Opened", out: Output) -> int:
    """Prints what was measured."""
    from zoo.gym.rounds.kind import listed
    from zoo.gym.rounds.measure.probes import probe_lines, probe_warnings

    state, measured, refused = found.state, found.state.measured, found.state.gate_refusals
    for key, gate in measured.gates.items():
        out.answer(f"{key.fingerprint}: {_against_base(gate.loss)}")
    for key, reason in refused.items():
        out.answer(f"refused {key.fingerprint}: {reason}")
    if measured.refit:
        out.answer(f"re-fit: the change times {measured.refit.factor:g}")
    terms, verdict = state.manifest.evaluation, None
    warnings: list[str] = []
    probes: dict[str, dict[str, int]] = {}
    if terms:
        failed = [one.refusal(terms.margin) for one in measured.results.values()]
        verdict = next((reason for reason in failed if reason), None)
        for result in measured.results.values():
            for line in (f"result: {_against_base(result.base)}", *probe_lines(result)):
                out.answer(line)
            warnings += probe_warnings(result)
            probes = {purpose: one.model_dump() for purpose, one in result.probes.items()}
        out.answer(verdict or "the result passes the gate")
    for warning in warnings:
        out.say(f"note: {warning}")
    taking = f"{command('aggregate', opened)} takes them"
    out.answer(f"{counted(found.added, 'record')} signed: {taking}")
    out.result(
        {
            "round": state.id,
            "added": found.added,
            "measured": len(measured.gates),
            "refused": listed(refused),
            "refit": measured.refit.factor if measured.refit else None,
            "passed": verdict is None if terms else None,
            "reason": verdict,
            "probes": probes,
            "warnings": warnings,
        }
    )
    return 0


def _measure_lessons(
    opened: "Opened", tasks: tuple[str, ...], given: MeasureOptions, out: Output, *, yes: bool
) -> int:
    """Measures the lessons of a round, or takes what was measured, and sends the signed records."""
    from zoo.gym.rounds.lessons.measuring import LessonMeasuring
    from zoo.gym.signing import load_key

    config = _lesson_config(opened, given, tasks)
    making = LessonMeasuring(opened, load_key())
    for item in making.own:
        out.say(f"not measured, it is yours: {item.text}")
    for file in given.measured:
        count = making.add(existing(file, "a file of measurements"))
        out.say(f"{file}: {counted(count, 'measurement')} of the round's lessons")
    lessons: Sequence[dict[str, object]] = ()
    spent = 0.0
    if config is not None and making.left:
        lessons, spent = _measured_now(making, config, tasks, out, yes=yes)
    elif config is not None and making.items:
        where = f": {making.kept_file}" if making.kept_file.exists() else ", and sent"
        out.say(f"all lessons were measured before{where}")
    return _send_records(opened, making, given, out, yes=yes, lessons=lessons, spent=spent)


def _lesson_config(
    opened: "Opened", given: MeasureOptions, tasks: tuple[str, ...]
) -> "ExperienceConfig | None":
    """Returns how lessons are measured; None if they were measured before."""
    if given.model is None:
        calling = {name: getattr(given, name) for name in _CALLING}
        refuse_given({"tasks": tasks} | calling, "in a round of lessons without --model")
        if not given.measured:
            raise InputError(
                "measure: expected tasks and a model, or what was measured, got neither",
                hint=f"{to_measure(opened)}, or --measured FILE instead of both",
                code="cli.missing_argument",
            )
        return None
    return config_of(
        {
            "model": given.model,
            "reward": "auto" if given.reward is None else given.reward,
            "gate_draws": 2 if given.draws is None else given.draws,
            "temperature_eval": 0.3 if given.temperature is None else given.temperature,
            "max_new_tokens": 1024 if given.max_new_tokens is None else given.max_new_tokens,
            "max_usd": given.max_usd,
            "max_tokens": given.max_tokens,
        }
    )


def _measured_now(
    making: "LessonMeasuring",
    config: "ExperienceConfig",
    tasks: tuple[str, ...],
    out: Output,
    *,
    yes: bool,
) -> tuple[list[dict[str, object]], float]:
    """Measures what is left and keeps it, and returns the figures and what they cost in USD."""
    from zoo.gym.experience.library.library import Library
    from zoo.gym.experience.tasks import seen_by

    items = making.left
    longest = max(items, key=lambda item: len(item.text.encode()))
    arms = (1 + len(items), Library((longest,)))
    read, _ = tasks_of(out, config, tasks, arms, seen=seen_by(items), yes=yes)
    records, entries, spent = measured_each(out, config, read, items, Library())
    making.keep(records)
    return entries, spent


def _send_records(
    opened: "Opened",
    making: "LessonMeasuring",
    given: MeasureOptions,
    out: Output,
    *,
    yes: bool,
    lessons: Sequence[dict[str, object]],
    spent: float,
) -> int:
    """Sends the records that are not in the round yet, after consent; without it fails."""
    entries = making.entries()
    left = len(making.left)
    if left:
        out.say(f"not measured: {counted(left, 'lesson')}")
    goes = "go" if len(entries) > 1 else "goes"
    what = (
        f"{counted(len(entries), 'signed record')} (lesson, model, number of tasks, effect and "
        f"interval; no task) {goes} to {opened.storage.address}, where anybody can read it"
    )
    agreed = given.send or not entries or confirmed(f"{what}. Send? [y/N] ", yes=yes)
    answer = {
        "round": opened.state.id,
        "records": len(entries),
        "sent": agreed and bool(entries),
        "left": left,
        "lessons": list(lessons),
        "spent_usd": spent,
    }
    if not agreed:
        error = NotAvailableError(
            f"round {opened.manifest.name}: expected your consent, because {what}",
            hint="nothing was sent, and what was measured is kept; agree with --send",
            code="cli.no_consent",
        )
        return fail(out, answer, error)
    if entries:
        making.send(entries)
        taking = f"{command('aggregate', opened)} takes them"
        out.answer(f"sent {counted(len(entries), 'record')}: {taking}")
    elif making.items:
        out.say("nothing to send: what was measured is in the round")
    else:
        said = "every lesson is yours" if making.own else "the round has no lesson that counts"
        out.say(f"{said}: nothing to measure")
    out.result(answer)
    return 0
