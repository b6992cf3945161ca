"""`Trainer.export`: the result of a run in a format, and its delta beside it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.arguments import StrPath, path_of, text_of
from zoo.gym.export.job import Options
from zoo.gym.export.job import Report as ExportReport
from zoo.gym.export.run import export, find_job, format_for, prepared
from zoo.gym.tuned.base import resolve_base

if TYPE_CHECKING:
    from collections.abc import Callable

    from zoo.gym.delta import Delta
    from zoo.gym.delta.reading.remembered import Check
    from zoo.models import Resolved

CODECS = ("bitdelta", "deltaquant")
"""Values of `quantization` that mean the delta: the file has the base plus that, in float16."""


def export_result(
    source: Path,
    path: StrPath,
    quantization: str | None,
    kind: str | None,
    compress: "Callable[[str], Delta]",
) -> ExportReport:
    """Writes a result in a format.

    Args:
        source: the folder of the result.
        path: the file or folder to write; an existing one is replaced.
        quantization: the type of weights, or one of `CODECS`.
        kind: the format; None takes that of the path's ending.
        compress: writes the delta of a codec, and returns it.

    Raises:
        GymError: see `zoo.gym.export.run.export`.
    """
    out = path_of("path", path)
    kind = format_for(str(out)) if kind is None else text_of("format", kind)
    chosen = None if quantization is None else text_of("quantization", quantization).lower()
    if chosen in CODECS:
        return _with_delta(compress(chosen), out, kind)
    return _export(source, out, kind, Options(quantization=chosen, force=True))


def _export(source: Path, out: Path, kind: str, options: Options) -> ExportReport:
    job = find_job(str(source), base=None, options=options, find_base=_base, say=lambda _: None)
    with prepared(job, kind) as ready:
        return export(ready, kind, out)


def _base(given: str | None, recorded: str | None, check: "Check | None") -> "Resolved":
    return resolve_base(given, recorded, "base", check)


def _with_delta(delta: "Delta", out: Path, kind: str) -> ExportReport:
    """Writes base plus delta, the delta beside it, and an adapter if it is of low rank."""
    import shutil

    beside = out.with_name(f"{out.stem}.delta.safetensors")
    is_file = kind == "gguf"
    report = _export(
        delta.path, out, kind, Options(quantization="f16" if is_file else None, force=True)
    )
    shutil.copyfile(delta.path, beside)
    bits = "1 bit" if _is_one_bit(delta) else "few bits"
    notes = [
        f"the fine-tune is coded in {bits} in {beside.name}; {out.name} is base plus that delta, "
        f"in {'float16' if is_file else 'the type of the base'}"
    ]
    if delta.header.form == "lowrank" and is_file:
        adapter = out.with_name(f"{out.stem}-lora.gguf")
        _export(delta.path, adapter, "gguf-lora", Options(force=True))
        notes.append(f"{adapter.name} is the same delta as an adapter for a GGUF file of the base")
    return replace(report, notes=(*report.notes, *notes))


def _is_one_bit(delta: "Delta") -> bool:
    kinds = {term.kind for tensor in delta.header.tensors for term in tensor.terms}
    return kinds <= {"sign", "raw"}
