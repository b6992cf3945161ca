"""Ollama: a folder with a GGUF file and a Modelfile, from which `ollama create` makes a model."""

import math
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

from zoo.gym.errors import InputError, InterruptedRunError, NotAvailableError
from zoo.gym.export import gguf
from zoo.gym.export.go_template import pieces_of, prints_date
from zoo.gym.export.job import DATE, Job, Preview, Report
from zoo.gym.files import new_folder, storage_errors
from zoo.models.folder import read_object

MODELFILE, WEIGHTS = "Modelfile", "model.gguf"

_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_NAMES = {"repetition_penalty": "repeat_penalty"}


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        GymError: see `gguf.plan` and `go_template.pieces_of`.
    """
    pieces_of(job)
    name_of(job)
    return gguf.preview(job)


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: the chat template cannot be written for Ollama; see also `gguf.write`.
        StorageError: the folder cannot be written.
    """
    with new_folder(out, replace=job.options.force) as folder:
        report = gguf.write(job, folder / WEIGHTS)
        write_modelfile(job, folder)
    return reported(job, out, "ollama", report)


def write_modelfile(job: Job, folder: Path, adapter: str | None = None) -> None:
    """Writes the Modelfile beside the GGUF file.

    Args:
        job: what is exported.
        folder: the folder of both.
        adapter: the LoRA adapter in GGUF beside them.

    Raises:
        InputError: see `pieces_of` and `modelfile`.
        StorageError: it cannot be written.
    """
    pieces, _ = pieces_of(job)
    text = modelfile(job, pieces.in_go(), f"./{WEIGHTS}", adapter and f"./{adapter}")
    with storage_errors(folder):
        (folder / MODELFILE).write_text(text, encoding="utf-8")


def reported(job: Job, out: Path, form: str, report: Report) -> Report:
    """Returns the report of a folder, from that of the file in it, with what the user should know.

    Args:
        job: what is exported.
        out: the folder.
        form: the format.
        report: of the GGUF file or the adapter.
    """
    pieces, rendered = pieces_of(job)
    notes = [f"the template renders {rendered} conversations as the model's own does"]
    if not pieces.takes_system:
        notes.append("the model knows no system prompt: one would begin the user's turn")
    if prints_date(job):
        notes.append(f"the template prints the date, which in Ollama stays {DATE}")
    notes += [f"no stop in Ollama: token {token}, {why}" for token, why in _left_out(job).items()]
    notes.append("tools are not in the template: calls of tools need llama.cpp or LM Studio")
    if job.record.system is None:
        notes.append("it was trained with a system prompt that is not on this machine")
    facts = {**report.facts, "name": name_of(job), "template": pieces.in_go()}
    command = f"ollama create {name_of(job)} -f {shlex.quote(str(out / MODELFILE))}"
    return Report(out, form, facts, report.check, (*report.notes, *notes), command)


def name_of(job: Job) -> str:
    """Returns what the model is called in Ollama.

    Raises:
        InputError: the name that was given has other letters.
    """
    given = job.options.name
    name = re.sub(r"[^a-z0-9._-]+", "-", (given or Path(job.label).name).lower()).strip("._-")
    if given is not None and given.lower() != name:
        raise InputError(
            f"name: expected a-z, 0-9, '.', '_' and '-' between letters or digits, got {given!r}",
            hint=f"--name {name}" if name else "--name mine",
            code="export.bad_name",
        )
    return name or "model"


def modelfile(job: Job, template: str, weights: str, adapter: str | None = None) -> str:
    """Returns the text of a Modelfile.

    Args:
        job: what is exported.
        template: the chat template in Go's language.
        weights: the GGUF file, relative to the Modelfile.
        adapter: the LoRA adapter in GGUF, the same.

    Raises:
        InputError: the system prompt cannot be quoted in it.
    """
    lines = [f"FROM {weights}"]
    if adapter is not None:
        lines.append(f"ADAPTER {adapter}")
    lines.append(f'TEMPLATE """{_quoted(template, "template")}"""')
    if system := job.record.system:
        lines.append(f'SYSTEM """{_quoted(system, "system prompt")}"""')
    left_out = _left_out(job)
    stops = [job.tokenizer.decode([token]) for token in job.stops if token not in left_out]
    lines += [f'PARAMETER stop "{stop}"' for stop in stops]
    lines += [f"PARAMETER {name} {value}" for name, value in _sampling(job).items()]
    return "\n".join(lines) + "\n"


def create(report: Report, *, force: bool) -> None:
    """Runs `ollama create`; the caller has asked the user.

    Raises:
        InputError: Ollama has a model of that name, and `force` is not set.
        NotAvailableError: Ollama is not installed.
        InterruptedRunError: it failed.
    """
    program, name = shutil.which("ollama"), str(report.facts["name"])
    if program is None:
        raise NotAvailableError("ollama: expected the program, got none", code="export.no_ollama")
    shown = subprocess.run([program, "show", name], capture_output=True, check=False)
    if shown.returncode == 0 and not force:
        raise InputError(
            f"Ollama has a model {name!r}: expected a name that is free",
            hint="--name gives it another, --force replaces that one",
            code="export.name_taken",
        )
    words = [program, "create", name, "-f", str(report.path / MODELFILE)]
    if subprocess.run(words, check=False).returncode:
        raise InterruptedRunError(
            f"'ollama create {name}' failed; {report.path} is complete", code="export.ollama_failed"
        )


def _left_out(job: Job) -> dict[int, str]:
    """Returns the tokens that end an answer and are no stop in a Modelfile, with the reason.

    Ollama compares texts: that of a plain token would end an answer wherever it stands. The tokens
    end an answer in any case, as the GGUF file names them.
    """
    special = set(cast("Any", job.tokenizer).all_special_ids)
    special |= set(job.tokenizer.added_tokens_decoder)
    found: dict[int, str] = {}
    for token in job.stops:
        text = job.tokenizer.decode([token])
        if token not in special or not text.strip():
            found[token] = f"{text!r}, which may stand in an answer"
        elif not text.isprintable() or any(mark in text for mark in '"\\'):
            found[token] = f"{text!r}, which a Modelfile cannot have"
    return found


def _quoted(text: str, what: str) -> str:
    """Returns a text that a Modelfile can have between three quotes.

    Its reader drops letters that are not printable, which may leave three quotes where there were
    none.

    Raises:
        InputError: it cannot.
    """
    odd = next((each for each in text if not each.isprintable() and each not in "\n\t"), None)
    if odd is not None or '"""' in text or text[:1] == '"' or text[-1:] == '"':
        got = "quotes at an end or three together" if odd is None else f"U+{ord(odd):04X}"
        raise InputError(
            f"{what}: expected a text that a Modelfile can have, got {got}",
            hint="--format gguf needs no Modelfile",
            code="export.not_quotable",
        )
    return text


def _sampling(job: Job) -> dict[str, Any]:
    """Returns the settings of sampling that the model's files state, under Ollama's names."""
    path = job.folder / "generation_config.json"
    stated = read_object(path) if path.is_file() else {}
    if not stated.get("do_sample"):
        return {}
    found = {name: stated[name] for name in _SETTINGS if isinstance(stated.get(name), int | float)}
    return {_NAMES.get(name, name): value for name, value in found.items() if math.isfinite(value)}
