"""`zoo-gym round measure`: what a model measures in a round, signed by a key of role gate."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Offline, Threads, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.opened import command, opened_round, round_base
from zoo.gym.cli.round.options import NO_MEASURE, MeasureOptions, Round, refuse_without_effect
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import counted, human_bytes

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.measure.measure import Measuring
    from zoo.gym.rounds.protocol.paired import Paired
    from zoo.gym.rounds.protocol.records import Purpose

_ROUND = "the round's folder, name or id; by default the only open one seen here"


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
    from zoo.gym.cli.round.lesson_measure import measure_lessons
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.kinds import kind_of
    from zoo.gym.rounds.measure.gating import load_validator
    from zoo.gym.rounds.measure.measure import Sources, files_to_show
    from zoo.gym.rounds.measure.measure import measure as made
    from zoo.gym.signing import load_key

    typed = {**locals(), **vars(lessons)}
    out, opened = Output(as_json), opened_round(round_)
    kind = kind_of(opened.manifest)
    refuse_without_effect(kind, "measure", typed)
    if kind.each_key_measures:
        return measure_lessons(opened, tasks, lessons, out, yes=yes)
    terms = opened.manifest.evaluation
    promised = terms.validator if terms else None
    if validator != promised:
        raise InputError(f"--validator: expected {promised or 'none'}, got {validator or 'none'}")
    model = round_base(opened, base, yes=yes, offline=offline)
    given: dict[Purpose, str | None] = {
        "evaluation": evaluation,
        "refit": refit,
        "refusals": refusals,
        "triggers": triggers,
    }
    sources = Sources(
        model.folder,
        work_folder(opened.state.id),
        {purpose: Path(existing(file)) for purpose, file in given.items() if file is not None},
        None if previous is None else Path(existing(previous)),
        None if validator is None else load_validator(validator),
        threads,
    )
    key = load_key()
    _agree(opened, files_to_show(opened, key, sources), yes=lessons.send or yes)
    return _show(made(opened, key, sources, out.say), opened, out)


def _agree(opened: "Opened", files: Mapping["Purpose", Path], *, yes: bool) -> None:
    """Asks before files of examples and figures go where anybody reads them.

    Raises:
        NotAvailableError: the user does not agree; nothing was measured.
    """
    rows = [f"{file.name} ({human_bytes(file.stat().st_size)})" for file in files.values()]
    what = " and ".join([*rows, "the signed figures"])
    where = f"go to {opened.storage.address}, where anybody reads them"
    if not confirmed(f"{what} {where}. Measure and send? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"round {opened.manifest.name}: expected your consent, because {what} {where}",
            hint="nothing was measured or sent; agree with --send",
        )


def _against_base(loss: "Paired | None") -> str:
    from zoo.gym.rounds.protocol.paired import below

    if loss is None:
        return "no loss could be measured"
    return (
        f"held-out loss a token {below(loss.mean)} the base's, one-sided 95 % bound "
        f"{below(loss.bound)}, {loss.rows} rows"
    )


def _show(found: "Measuring", opened: "Opened", out: Output) -> int:
    """Prints what was measured."""
    from zoo.gym.rounds.kinds.kind import listed
    from zoo.gym.rounds.measure.figures import probe_lines, probe_warnings

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
