"""Exports a fine-tune: finds it and its base, and writes it in the chosen format."""

import difflib
import json
import os
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.chat.gguf import is_gguf_file
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.export.job import Job, Options, Preview, Report
from zoo.gym.export.refused import refuse
from zoo.gym.export.whole import with_weights
from zoo.gym.files import storage_errors
from zoo.gym.paths import given_path
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.source import Source, resolve_tuned
from zoo.models import Resolved
from zoo.models.hub import check_disk

if TYPE_CHECKING:
    from zoo.gym.delta.reading.remembered import Check


@dataclass(frozen=True)
class Format:
    """A format: a row of `FORMATS`.

    Attributes:
        module: the file of this room that writes it.
        suffix: what its file or folder ends with.
        takes: the options that it has, beside `check`.
        is_folder: whether it is a folder.
        is_whole: whether it holds whole weights, not the fine-tune alone.
    """

    module: str
    suffix: str
    takes: frozenset[str] = field(default_factory=frozenset[str])
    is_folder: bool = False
    is_whole: bool = True


_OF_GGUF = frozenset({"quantization", "strict", "name", "template"})
_OF_FOLDER = frozenset({"template"})

FORMATS: dict[str, Format] = {
    "hf": Format("hf", "", _OF_FOLDER | {"dtype"}, is_folder=True),
    "peft": Format("peft", "", _OF_FOLDER, is_folder=True, is_whole=False),
    "mlx": Format("mlx", "", _OF_FOLDER | {"quantization", "dtype", "strict"}, is_folder=True),
    "mlx-adapter": Format("mlx_adapter", "", _OF_FOLDER, is_folder=True, is_whole=False),
    "onnx": Format("onnx", "", _OF_FOLDER, is_folder=True),
    "program": Format("program", "", _OF_FOLDER, is_folder=True),
    "gguf": Format("gguf", ".gguf", _OF_GGUF),
    "gguf-lora": Format("gguf_lora", ".gguf", frozenset({"quantization", "name"}), is_whole=False),
    "ollama": Format("ollama", "-ollama", _OF_GGUF, is_folder=True),
    "ollama-lora": Format("ollama_lora", "-ollama", _OF_GGUF, is_folder=True, is_whole=False),
    "lmstudio": Format("lmstudio", "", _OF_GGUF, is_folder=True),
}
"""Formats by name. A module has `write(job, out) -> Report`."""

MARK = "export.json"
"""The file in an exported folder that says what it is and what was measured."""

BaseOf = Callable[[str | None, str | None, "Check | None"], Resolved]
"""Finds a base: the name that was given, the recorded one, and a check of its weights."""


def find_job(
    source: str,
    *,
    base: str | None,
    options: Options,
    find_base: BaseOf,
    say: Callable[[str], None],
) -> Job:
    """Returns what is exported.

    Args:
        source: a run, a delta, an adapter, or a model's name or folder.
        base: the base of the fine-tune; None takes the recorded one.
        options: what the user chose.
        find_base: see `BaseOf`.
        say: reports a note.

    Raises:
        InputError: the source cannot be exported, or has no base.
        NotAvailableError: something is missing.
    """
    found, label = _source(source, find_base)
    if found.artifact == "model":
        if base is not None:
            raise InputError(
                f"--base: expected none with whole weights, got {base!r}", code="export.no_base"
            )
        model = Resolved(label, label, None, found.folder)
    else:
        model = find_base(base, found.base, found.check)
    tuned = open_tuned(found, model.folder)
    tuned.warn_of_base()
    return Job(tuned, model, label, options, say)


def _source(name: str, find_base: BaseOf) -> tuple[Source, str]:
    """Returns a fine-tune, or a model, and what it is called."""
    if is_gguf_file(given_path(name)):
        raise InputError(
            f"{name}: expected a run, a delta, an adapter or a model folder, got a GGUF file",
            hint=f"zoo-gym models import {shlex.quote(name)} makes a model of it",
            code="export.gguf_source",
        )
    try:
        found = resolve_tuned(name)
    except NotAvailableError as error:
        try:
            model = find_base(name, None, None)
        except (InputError, NotAvailableError):
            raise error from None
        return Source("model", model.folder), name
    label = found.run.id if found.run is not None else Path(name).name
    return found, label.removesuffix(".safetensors")


def prepared(job: Job, name: str) -> AbstractContextManager[Job]:
    """Returns a job as a format needs it, valid inside a `with` block; see `with_weights`."""
    return with_weights(job) if format_of(name).is_whole else nullcontext(job)


def preview(job: Job, name: str) -> Preview:
    """Returns what a job will write in a format, without its values.

    Raises:
        GymError: see `export`.
    """
    found: Preview = _module(job, name).preview(job)
    return found


def export(job: Job, name: str, out: Path) -> Report:
    """Writes a job in a format.

    Raises:
        InputError: there is no such format, an option has no effect in it, it cannot hold this
            model, there is something at `out`, or what another program computes differs.
        NotAvailableError: an extra is missing.
        DoesNotFitError: the disk is too small.
        StorageError: it cannot be written.
    """
    module = _module(job, name)
    _check_ending(name, out)
    _check_place(job, out)
    size_bytes = module.preview(job).size_bytes
    check_disk(out.absolute().parent, size_bytes, "free some space, or --out on a larger disk")
    report: Report = module.write(job, out)
    if out.is_dir():
        _mark(report)
    return report


def default_path(job: Job, name: str, found: Preview, beside: Path) -> Path:
    """Returns the path of a file or folder that was given none.

    Args:
        job: what is exported.
        name: the format.
        found: what will be written.
        beside: where a source that is a path lies, or the current folder.
    """
    if name == "lmstudio":
        from zoo.gym.export.lmstudio import default_folder

        return default_folder(job)
    tag = f"-{found.tag}" if found.tag else ""
    return beside / f"{Path(job.label).name}{tag}{format_of(name).suffix}"


_ENDINGS = {".gguf": "gguf", ".onnx": "onnx", ".safetensors": "hf", ".pt2": "program"}
"""What a file's ending means; only the first one is a file here, the others are folders."""


def format_for(out: str | None) -> str:
    """Returns the format that a file's ending means; GGUF without a path.

    Raises:
        InputError: it has none, or that of a format that is a folder.
    """
    if out is None or Path(out).suffix == ".gguf":
        return "gguf"
    meant = _ENDINGS.get(Path(out).suffix)
    hint = f"--format {meant} --out {Path(out).stem}, a folder" if meant else "--format hf"
    raise InputError(
        f"output {out!r}: expected a name that ends with .gguf, or the format with it",
        hint=hint,
        code="export.no_format",
    )


def _check_ending(name: str, out: Path) -> None:
    """Refuses a name that says another format.

    Raises:
        InputError: it does.
    """
    is_folder = format_of(name).is_folder
    if out.suffix in _ENDINGS and (is_folder or out.suffix != ".gguf"):
        what = "a folder" if is_folder else "a .gguf file"
        raise InputError(
            f"output {str(out)!r}: expected the name of {what}, which --format {name} writes",
            hint=f"--out {out.stem}{'' if is_folder else '.gguf'}",
            code="export.other_ending",
        )


def _module(job: Job, name: str) -> Any:  # noqa: ANN401
    form = format_of(name)
    for option in ("quantization", "dtype", "strict", "name", "template"):
        if getattr(job.options, option) and option not in form.takes:
            taken = ", ".join(f"--{each}" for each in sorted(form.takes)) or "none of them"
            raise InputError(
                f"--{option}: has no effect with --format {name}: expected {taken}, or another "
                "format",
                hint="zoo-gym export --help",
                code="export.no_effect",
            )
    return import_module(f"zoo.gym.export.{form.module}")


def _check_place(job: Job, out: Path) -> None:
    """Refuses a place where an export would replace something that is no export.

    Raises:
        InputError: there is something and `force` is not set; or it is a folder that has something
            else in it, such as the source.
    """
    place = Path(os.path.abspath(out))  # noqa: PTH100 - resolve would follow a link
    kept = [Path.cwd(), Path.home(), *map(Path.absolute, (job.given.source.path, job.base.folder))]
    if out.name in {"", ".", ".."} or any(place in {each, *each.parents} for each in kept):
        raise InputError(
            f"output {str(out)!r}: expected a name of its own, got a folder with other files",
            hint="--out NAME",
            code="export.place_in_use",
        )
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not job.options.force:
        refuse_existing(out)
    if out.is_dir() and not (out / MARK).is_file():
        raise InputError(
            f"output {str(out)!r}: expected a folder that export wrote, got one without {MARK}",
            hint="--out writes elsewhere",
            code="export.not_ours",
        )


def refuse_existing(out: Path) -> None:
    """Refuses a path where something is.

    Raises:
        InputError: there is a file, or a folder with files.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(
            f"output {str(out)!r}: expected a free name, got that of an existing "
            f"{'folder' if out.is_dir() else 'file'}",
            hint="--force replaces it, --out writes elsewhere",
            code="export.exists",
        )


def _mark(report: Report) -> None:
    """Writes what was exported beside it; `--force` replaces folders with this file alone."""
    content = {key: value for key, value in report.as_json().items() if key not in {"path", "next"}}
    with storage_errors(report.path):
        (report.path / MARK).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def format_of(name: str) -> Format:
    """Returns a format by its name.

    Raises:
        InputError: there is none.
        NotAvailableError: it is one that is not supported, with the reason.
    """
    if name in FORMATS:
        return FORMATS[name]
    refuse(name)
    close = difflib.get_close_matches(name.lower(), FORMATS, n=1)
    raise InputError(
        f"format: expected one of {', '.join(FORMATS)}, got {name!r}",
        hint=f"--format {close[0]}" if close else None,
        code="export.bad_format",
    )
