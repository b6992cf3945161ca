"""`zoo-gym delta create`: compresses a fine-tune, and measures what that loses."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.cli.delta.examples import held_out_examples, quality_of, sampled
from zoo.gym.cli.flags import read_flags, with_model_flags
from zoo.gym.cli.options import Files, Json, Offline, Switch, Yes, output_path
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import show_pass
from zoo.gym.cli.sources import resolve_base
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.origin.record import trained_bits
from zoo.gym.errors import InputError
from zoo.gym.files import check_new_file
from zoo.gym.humanize import counted, human_bytes, parsed_bytes

if TYPE_CHECKING:
    from zoo.gym.delta import DeltaReport
    from zoo.gym.delta.budget import Candidate
    from zoo.gym.delta.distilled import Distilled
    from zoo.gym.delta.file.header import Quality
    from zoo.gym.delta.zeros import Masked
    from zoo.gym.tuned.source import Source
    from zoo.models import Resolved

LOSSLESS = ("sparse", "f16", "bf16", "f32")
"""Codecs that lose nothing, or only by rounding."""


@with_model_flags(DeltaConfig)
def create(
    source: str,
    /,
    *,
    base: str | None = None,
    data: Files = (),
    rows: int | None = None,
    control: str | None = None,
    distill: str = "off",
    safety_threshold: float | None = None,
    max_bytes: str | None = None,
    out: str | None = None,
    force: Switch = False,
    dry_run: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
    **settings: object,
) -> int:
    """Compresses a fine-tune to a small delta file, and measures its quality.

    Args:
        source: a run's id or last, a peft folder, a full-model folder or a .safetensors file
        base: the base model's name or folder; a run and most peft folders specify it
        data: held-out examples to measure on; a run has its own
        rows: the maximum number of them; by default as many as take a few minutes
        control: another user's delta of this base; its loss on the same rows is reported, too
        distill: train the delta to predict what the fine-tune predicts: auto, off, or a number
            of steps
        safety_threshold: the share of the base's refusals of harmful prompts that the delta must
            keep, 0 to 1; otherwise no file is written
        max_bytes: choose the coding that keeps most within this size, such as 100kB or 10MB, by
            measuring those that fit
        out: the file to write; by default in this folder, named after the source
        force: replace an existing delta
        dry_run: show what would be coded and measured, and where it would be written
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.delta import create_delta
    from zoo.gym.delta.budget import choose_within, options_of
    from zoo.gym.delta.file.reader import refuse_delta
    from zoo.gym.delta.safety_gate import threshold_of
    from zoo.gym.train.run_folder.base import refuse_other_base
    from zoo.gym.tuned.record import origin_of
    from zoo.gym.tuned.source import resolve_tuned

    screen, tuned = Output(as_json), resolve_tuned(source)
    config = read_flags(DeltaConfig, settings)
    if max_bytes is None:
        config = _as_trained(config, tuned, screen)
    refuse_delta(tuned.path)
    threshold = None if safety_threshold is None else threshold_of(safety_threshold)
    budget = None if max_bytes is None else _budget(max_bytes, config)
    name = tuned.path.stem if tuned.run is None else tuned.run.id
    target = output_path(out, f"{name}.delta.safetensors")
    check_new_file(target)
    _refuse_existing(target, force=force)
    model = resolve_base(base, tuned.base, "--base", yes=yes, offline=offline or dry_run)
    if tuned.run is not None and tuned.run.env_file.is_file():
        refuse_other_base(tuned.run.env_file, model.folder)
    measuring = held_out_examples(tuned, data, model.folder, screen)
    measuring = sampled(measuring, model.folder, rows, screen)
    steps, quality = _distillation(distill, tuned, config), quality_of(measuring, control)
    if budget is not None and quality is None:
        raise InputError(
            "--max-bytes: expected held-out rows to measure codings on, got none",
            hint="give some that it has not learned with --data",
            code="cli.no_examples",
        )
    if dry_run:
        coding = options_of(config) if max_bytes is None else f"what keeps most in {max_bytes}"
        if steps is not None:
            coding += ", then trained" + (f" for {counted(steps, 'step')}" if steps else "")
        return _planned(tuned, model, coding, target, len(measuring.examples), screen)
    named = dict[str, Any](base_id=model.id, base_revision=model.revision, origin=origin_of(tuned))
    if budget is not None and quality is not None:
        screen.say("measuring codings: size, KL to the fine-tune in nats per token, options")
        config, _ = choose_within(
            tuned.path, model.folder, budget, quality, **named, watch=_say_candidate(screen)
        )
        screen.say(f"chosen: {options_of(config)}")
        if steps is not None and config.codec in LOSSLESS:
            screen.say("this coding loses nothing that training could get back: it is not trained")
            steps = None
    report = create_delta(
        tuned.path,
        base=model.folder,
        out=target,
        config=config,
        quality=quality,
        force=force,
        distill=None if steps is None else _distiller(steps or None, tuned, model.folder, screen),
        safety_threshold=threshold,
        watch=show_pass(screen),
        **named,
    )
    _print_report(report, data, screen)
    screen.result(report.as_json())
    return 0


def _refuse_existing(target: Path, *, force: bool) -> None:
    if target.exists() and not force:
        raise InputError(
            f"output {str(target)!r}: expected a new file, got one that exists",
            hint="choose another name with --out, or replace the delta with --force",
            code="cli.output_exists",
        )


def _planned(
    tuned: "Source", base: "Resolved", coding: str, target: Path, rows: int, screen: Output
) -> int:
    """Prints what a delta would be made from, and returns the exit code."""
    screen.answer(f"the {tuned.artifact} {tuned.path} on {base.id}: {coding}")
    measured = f"measured on {counted(rows, 'held-out row')}" if rows else "not measured"
    screen.answer(f"{measured}; to {target}: nothing was written")
    planned = {"file": str(target), "base": base.id, "revision": base.revision, "rows": rows}
    screen.result(planned | {"options": coding})
    return 0


def _budget(max_bytes: str, config: DeltaConfig) -> int:
    """Returns the bytes of `--max-bytes`, which chooses the coding."""
    if stated := config.model_dump(exclude_defaults=True):
        key = next(iter(stated))
        raise InputError(
            f"--max-bytes: chooses the coding: expected no --{key}",
            hint=f"leave out --max-bytes or --{key}",
            code="cli.bad_value",
        )
    budget = parsed_bytes(max_bytes)
    if budget is None:
        raise InputError(
            f"--max-bytes: expected a number of bytes, such as 100000, 100kB or 10MB, got "
            f"{max_bytes!r}",
            code="cli.bad_value",
        )
    return budget


def _say_candidate(screen: Output) -> "Callable[[Candidate], None]":
    """Returns what shows a coding as soon as it is measured."""

    def say(candidate: "Candidate") -> None:
        kl = "not measured" if candidate.kl is None else f"KL {candidate.kl:.4f}"
        screen.say(f"  {human_bytes(candidate.file_bytes):>10}  {kl}  {candidate.options}")

    return say


def _as_trained(config: DeltaConfig, source: "Source", screen: Output) -> DeltaConfig:
    """Returns the coding that a run trained its adapter in, where the options name none."""
    bits = trained_bits(source.path) if source.artifact == "adapter" else None
    stated = config.bits is not None or config.codec != "auto" or config.form == "dense"
    if bits is None or stated:
        return config
    screen.say(f"coded in {counted(bits, 'bit')} a value, as it was trained")
    return config.model_copy(update={"bits": bits})


def _distillation(distill: str, source: "Source", config: DeltaConfig) -> int | None:
    """Returns the steps of `--distill`, 0 for those chosen by itself, None for off.

    Raises:
        InputError: it is none of these, the source is one file, or the coding loses nothing.
    """
    if distill == "off":
        return None
    if distill != "auto" and not (distill.isdecimal() and int(distill)):
        raise InputError(
            f"--distill: expected auto, off or a number of steps, got {distill!r}",
            code="cli.bad_value",
        )
    if not source.path.is_dir():
        raise InputError(
            f"--distill: expected a run or a folder as the source, got the file {source.path.name}",
            code="cli.bad_value",
        )
    if config.codec in LOSSLESS:
        raise InputError(
            f"--distill: expected a coding that loses something, got {config.codec}",
            code="cli.bad_value",
        )
    if config.bits is not None and config.rank is None and config.bits == trained_bits(source.path):
        raise InputError(
            f"--distill: expected a coding that loses something, got the "
            f"{counted(config.bits, 'bit')} that the adapter was trained in",
            code="cli.bad_value",
        )
    return 0 if distill == "auto" else int(distill)


def _distiller(
    steps: int | None, source: "Source", base: Path, screen: Output
) -> "Callable[[Path], Distilled]":
    """Returns what trains a delta of a source, and shows its progress."""
    from zoo.gym.cli.progress import Progress
    from zoo.gym.published.distilled import distill_delta

    return partial(
        distill_delta,
        base=base,
        tuned=source.path,
        run=source.run,
        steps=steps,
        on_event=Progress(screen),
    )


def _print_report(report: "DeltaReport", data: Sequence[str], screen: Output) -> None:
    from zoo.gym.delta.quality import rows_in_words

    quality = report.quality
    if quality is None:
        screen.say("quality was not measured: there are no held-out rows; give some with --data")
    else:
        tuned = "" if quality.tuned is None else f", tuned {quality.tuned:.4f}"
        recovered = (
            "" if quality.recovered is None else f": {quality.recovered:.1%} of the gain kept"
        )
        losses = f"base {quality.base:.4f}{tuned}, delta {quality.delta:.4f}"
        rows, _, doubt = rows_in_words(quality.rows, report.held_out, data).partition("; ")
        doubt = f"; {doubt}" if doubt else ""
        screen.say(f"loss per learned token on {rows}: {losses}{recovered}{doubt}")
        if quality.kl is not None and quality.top1 is not None:
            same = f"{quality.top1:.1%} of tokens have the same most likely one"
            screen.say(f"beside the fine-tune: KL {quality.kl:.4f} nats per token, {same}")
        for sentence in _elsewhere(quality):
            screen.say(sentence)
        if quality.controls:
            screen.say(f"controls, for comparison: {', '.join(_control_words(quality))}")
        if report.no_refusals is not None:
            screen.say(f"refusals were not measured: {report.no_refusals}")
    for sentence in report.refusals.sentences() if report.refusals else ():
        screen.say(sentence)
    if report.distilled is not None:
        screen.say(_trained_line(report.distilled))
    if report.masked is not None:
        _print_mask(report.masked, screen)
    screen.answer(f"{report.file}  {report.form}  {human_bytes(report.file_bytes)}")


WORSE_ON_TEXT = 0.5
"""Nats of loss on plain text from which on more is forgotten than a task explains."""


def _elsewhere(quality: "Quality") -> Iterator[str]:
    """Yields what the delta changes beside its task."""
    if quality.drift is None:
        return
    drift = round(quality.drift, 3) + 0.0  # no -0.000
    text = f"loss on plain text {drift:+.3f} nats per token"
    kept = "" if quality.kept is None else f"kept {quality.kept} of {quality.right} answers; "
    yield f"general knowledge: {kept}{text}"
    if drift > WORSE_ON_TEXT:
        yield (
            "warning: base plus delta predicts plain text much worse than the base: fewer steps or "
            "a lower learning rate forget less"
        )


def _control_words(quality: "Quality") -> Iterator[str]:
    """Yields what each control keeps of the gain; its loss if there is no gain."""
    from zoo.gym.delta.file.header import recovered

    for control in quality.controls or ():
        share = recovered(quality.base, quality.tuned, control.loss)
        figure = f"loss {control.loss:.4f}" if share is None else f"{share:.1%} of the gain"
        yield f"{control.kind} {figure}"


def _trained_line(distilled: "Distilled") -> str:
    """Returns what training a delta gained, in a sentence."""
    steps, before, after = distilled.record["steps"], distilled.before, distilled.after
    if before is None or after is None:
        return "one row is too few to tell whether training helps: the delta is as it was coded"
    change = f"KL to the fine-tune {before:.4f} -> {after:.4f} on learned rows that it left out"
    if not distilled.is_better:
        return f"training it gained nothing ({change}): the delta is as it was coded"
    falls = f"; still falling: --distill {4 * int(str(steps))} may gain more"
    more = falls if distilled.falls_at_end else ""
    return f"trained for {steps} steps on {distilled.record['text']}: {change}{more}"


def _print_mask(masked: "Masked", screen: Output) -> None:
    from zoo.gym.delta.zeros import FEW

    zeros = f"{1 - masked.changed:.1%} of the weights of {masked.tensors} tensors did not change"
    screen.say(f"{zeros}: they are kept by a mask, one more bit per weight (--zero minus: no mask)")
    if masked.changed < FEW:
        screen.say("--codec sparse would keep the changed ones exactly")
