"""`zoo-gym export`: a model or a fine-tune in a format that other programs read."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from zoo.gym.cli.chosen import Adapter
from zoo.gym.cli.options import Json, Model, Offline, Switch, Template, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_base, template_of
from zoo.gym.errors import InputError
from zoo.gym.humanize import human_bytes
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from zoo.gym.delta.reading.remembered import Check
    from zoo.gym.export.job import Job, Preview, Report
    from zoo.models import Resolved


COSTLY_SHARE = 0.25
"""The share of what a fine-tune changes that its type of weights may cost without a warning."""


def export(
    source: str | None = None,
    /,
    *,
    model: Model = None,
    adapter: Adapter = None,
    format: Annotated[str | None, Parameter(name="--format")] = None,  # noqa: A002
    quantization: str | None = None,
    dtype: str | None = None,
    out: Annotated[str | None, Parameter(name=["--out", "--export_dir"])] = None,
    base: str | None = None,
    name: str | None = None,
    template: Template = None,
    strict: Switch = False,
    no_check: Switch = False,
    dry_run: Switch = False,
    force: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Writes a model or a fine-tune for llama.cpp, Ollama, LM Studio, transformers and others.

    Args:
        source: a run, `last`, a delta file, an adapter, or a model's name or folder
        model: the source; with an adapter, its base
        adapter: a peft folder as the source
        format: gguf, gguf-lora, hf, lmstudio, mlx, mlx-adapter, ollama, ollama-lora, onnx, peft,
            program (default: by the ending of --out, or gguf)
        quantization: of gguf: f32, f16, bf16, q8_0 (default), q5_0, q4_0, q6_k, q5_k_m ... q3_k_s;
            of mlx: 2bit ... 6bit, 8bit (default: none)
        dtype: of hf and mlx: f32, bf16, f16 (default: as the base, if that loses nothing)
        out: the file or folder to write (default: named after the source)
        base: the base of a fine-tune (default: the recorded one)
        name: the model's name inside the file, or in Ollama
        template: a chat template in place of the model's own, by name or a file
        strict: refuse tensors that are too narrow for the chosen type
        no_check: do not compare what was written with the source
        dry_run: show what would be written
        force: replace what is at --out
        yes: download, and run `ollama create`, without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.export import run
    from zoo.gym.export.job import Options

    screen = Output(as_json)
    chosen, base = _source(source, model, adapter, base)
    kind = format or run.format_for(out)
    run.format_of(kind)
    if out and not force:
        run.refuse_existing(Path(out))
    options = Options(
        quantization=quantization.lower() if quantization else None,
        dtype=dtype,
        strict=strict,
        check=not no_check,
        force=force,
        name=name,
        template=template_of(template, screen),
    )

    def find_base(given: str | None, recorded: str | None, check: "Check | None") -> "Resolved":
        return resolve_base(given, recorded, "--base", check, yes=yes, offline=offline)

    job = run.find_job(chosen, base=base, options=options, find_base=find_base, say=screen.say)
    with run.prepared(job, kind) as ready:
        found = run.preview(ready, kind)
        target = Path(out) if out else run.default_path(ready, kind, found, _beside(chosen))
        _say_plan(screen, ready, kind, found, target)
        if dry_run:
            planned = {"path": str(target), "format": kind, "bytes": found.size_bytes}
            screen.result(planned | dict(found.facts))
            return 0
        report = run.export(ready, kind, target)
    _report(screen, report)
    if kind.startswith("ollama"):
        _create(screen, report, yes=yes, force=force)
    return 0


def _create(screen: Output, report: "Report", *, yes: bool, force: bool) -> None:
    """Runs `ollama create` if that program is here and the user agrees."""
    import shutil

    from zoo.gym.export import ollama

    if shutil.which("ollama") is None:
        return
    if confirmed(f"Run it now: {report.next}? [y/N] ", yes=yes):
        ollama.create(report, force=force)
        screen.say(f"Ollama has it: ollama run {report.facts['name']}")


def _source(
    source: str | None, model: str | None, adapter: str | None, base: str | None
) -> tuple[str, str | None]:
    """Returns what is exported and its base, by whichever options named them."""
    if adapter is not None:
        if source is not None or (model is not None and base is not None):
            raise InputError(
                "--adapter_name_or_path: expected one source, got two", code="cli.given_twice"
            )
        return adapter, base if model is None else model
    if (source is None) == (model is None):
        got = "none" if source is None else f"{source!r} and --model {model!r}"
        raise InputError(
            f"SOURCE: expected one run, delta, adapter or model, got {got}",
            hint="zoo-gym export last",
            code="cli.missing_argument",
        )
    return str(source if model is None else model), base


def _beside(source: str) -> Path:
    """Returns the folder of a source that is a path, or the current one."""
    path = given_path(source)
    return path.parent if path.exists() else Path()


def _say_plan(screen: Output, job: "Job", kind: str, found: "Preview", target: Path) -> None:
    facts = found.facts
    words = [f"{job.label} as {kind}: about {human_bytes(found.size_bytes)} in {target}"]
    if types := facts.get("types"):
        counts = ", ".join(f"{count} {kind}" for kind, count in types.items())
        words.append(f"tensors: {counts}; {facts['bits_per_weight']:.2f} bits a weight")
    for tensor, got in (facts.get("fallbacks") or {}).items():
        words.append(f"too narrow for its type: {tensor} is {got}")
    for line in words if len(words) <= 8 else [*words[:8], f"... and {len(words) - 8} more"]:
        screen.say(line)
    for note in job.own.notes:
        screen.say(f"note: {note}")


def _report(screen: Output, report: "Report") -> None:
    screen.answer(str(report.path))
    for note in report.notes:
        screen.say(f"note: {note}")
    screen.say(_checked(report.check))
    if report.next:
        screen.say(f"use it: {report.next}")
    screen.result(report.as_json())


def _checked(check: "Mapping[str, Any] | None") -> str:
    if check is None:
        return "not checked: --no-check was given"
    if not check.get("checked"):
        return f"not checked: {check['reason']}"
    words = (
        f"checked by {check['by']} on {check['prompts']} prompts: mean KL {check['mean_kl']:.2g} "
        f"nats, most likely token the same after {check['top1_equal']:.0%}"
    )
    if (tuned := check.get("kl_of_fine_tune")) is not None:
        words += f"; the fine-tune itself changes {tuned:.2g} nats"
        if check["mean_kl"] > COSTLY_SHARE * tuned:
            words += (
                "\nwarning: the weights lost much of what was learned: --quantization q8_0 or f16"
            )
    return words
