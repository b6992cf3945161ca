"""A peft folder: the low-rank factors of a fine-tune, as peft, vLLM and others load them.

The files of an adapter are copied, in whatever form of peft it is; those of a low-rank delta are
written from its codes. Left out: what is not of low rank, which only whole weights hold.
"""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY, write_own
from zoo.gym.delta.file.terms import LowRankTerm
from zoo.gym.delta.origin.record import keep_joint
from zoo.gym.delta.reading.adapter import write_adapter
from zoo.gym.errors import InputError
from zoo.gym.export.cards import write_card
from zoo.gym.export.checking import check, check_prompts, measured_line
from zoo.gym.export.comparison import comparison_dtype
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.files import new_folder, storage_errors
from zoo.gym.tuned.opened import Tuned
from zoo.gym.tuned.source import Source
from zoo.models.adapters import CONFIG_FILE, WEIGHTS_FILE, read_adapter_config

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Factors = tuple[str, NDArray[np.float32], NDArray[np.float32]]

TAG = "peft"

_CODE = """
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained("FOLDER OF THE BASE")
model = PeftModel.from_pretrained(base, "FOLDER OF THIS FILE")
tokenizer = AutoTokenizer.from_pretrained("FOLDER OF THE BASE")
"""
_TEMPLATE = 'tokenizer.chat_template = open("FOLDER OF THIS FILE/chat_template.jinja").read()\n'


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        InputError: the fine-tune is not of low rank.
    """
    require_low_rank(job)
    source = job.tuned.source
    if source.artifact == "adapter":
        read_adapter_config(source.folder / CONFIG_FILE)
        return Preview(_weights_file(job).stat().st_size, {}, TAG)
    weights = 0
    for tensor in source.delta.header.tensors:
        ranks = sum(term.rank for term in tensor.terms if isinstance(term, LowRankTerm))
        weights += ranks * sum(tensor.shape)
    return Preview(4 * weights, {"dtype": "f32"}, TAG)


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: the fine-tune is not of low rank, or what peft computes differs.
        StorageError: the folder cannot be written.
    """
    facts = preview(job).facts
    with new_folder(out, replace=job.options.force) as folder:
        write_factors(job, folder)
        checked = _check(job, folder) if job.options.check else None
        template = _TEMPLATE if "chat_template" in job.own.parts else ""
        how = f"A peft adapter, written with zoo-gym. {measured_line(checked)}"
        write_card(folder, job, library="peft", how=how, code=_CODE + template)
    base = shlex.quote(job.base.id)
    command = f"zoo-gym chat --model {base} --adapter_name_or_path {shlex.quote(str(out))}"
    return Report(out, "peft", facts, checked, tuple(job.own.notes), command)


def require_low_rank(job: Job) -> None:
    """Refuses a fine-tune that is not of low rank.

    Raises:
        InputError: it is whole weights, or a delta of them.
    """
    source = job.tuned.source
    if source.artifact == "adapter":
        return
    if source.artifact == "model" or source.delta.header.form != "lowrank":
        got = "whole weights" if source.artifact == "model" else "a delta of whole matrices"
        raise InputError(
            f"{job.label}: expected a fine-tune of low rank for an adapter, got {got}",
            hint="--format hf",
            code="export.not_low_rank",
        )


def factors_of(job: Job) -> "Iterator[Factors]":
    """Yields each changed tensor's name with its factors A [r, in] and B [r, out].

    Raises:
        InputError: the adapter is not LoRA, or the delta belongs to another base.
    """
    changes = job.tuned.changes
    for name in changes.names:
        pair = changes.decoded_factors(name)
        assert pair is not None, f"{changes.kind} of low rank has no factors for {name}"
        yield name, *pair


def write_factors(job: Job, folder: Path) -> None:
    """Writes the adapter, and what differs in the tokenizer.

    Raises:
        InputError: the delta belongs to another base.
        StorageError: the folder cannot be written.
    """
    source = job.tuned.source
    if source.artifact == "adapter":
        config: dict[str, Any] = read_adapter_config(source.folder / CONFIG_FILE)
        config["base_model_name_or_path"] = job.base.id
        with storage_errors(folder):
            shutil.copyfile(_weights_file(job), folder / WEIGHTS_FILE)
            text = json.dumps(config, indent=2) + "\n"
            (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    else:
        write_adapter(folder, factors_of(job), job.base.id, 1.0, base=job.tuned.weights)
    with storage_errors(folder):
        keep_joint(folder, job.record.stored)
        if job.own.parts:
            write_own(folder, {TOKENIZER_KEY: job.own.parts})


def _weights_file(job: Job) -> Path:
    path = job.tuned.source.path
    file = path / WEIGHTS_FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"{path}: expected {WEIGHTS_FILE!r} beside {CONFIG_FILE!r}, got none",
            code="export.no_adapter_weights",
        )
    return file


def _check(job: Job, folder: Path) -> dict[str, Any]:
    from zoo.backends.plain import next_logprobs

    check_prompts(job, Tuned(Source("adapter", folder), job.base.folder))
    base, dtype = job.base.folder, comparison_dtype(job)

    return check(
        job, "peft", lambda prompts, most: next_logprobs(base, prompts, most, folder, dtype)
    )
