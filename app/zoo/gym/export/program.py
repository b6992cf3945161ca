"""A program of torch.export (`model.pt2`) in float32, which C++ and torch run without transformers.

It has no cache: it computes all tokens at once. The container may hold pickles; ours holds none.
"""

from functools import partial
from pathlib import Path
from typing import Any

from zoo.gym.export.cards import write_card
from zoo.gym.export.checking import (
    check,
    check_prompts,
    measured_line,
    refusals_of,
    weights_of,
)
from zoo.gym.export.hf import write_model
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.export.onnx import remove_weights
from zoo.gym.files import new_folder
from zoo.gym.tuned.opened import Tuned
from zoo.gym.tuned.source import Source
from zoo.models.hub import check_disk

_CODE = """
import torch
from transformers import AutoTokenizer

# torch.export.load unpickles what a container holds: load only files of people whom you trust
program = torch.export.load("FOLDER OF THIS FILE/model.pt2").module()
tokenizer = AutoTokenizer.from_pretrained("FOLDER OF THIS FILE")
ids = tokenizer("YOUR PROMPT", return_tensors="pt")["input_ids"]
positions = torch.arange(ids.shape[1])[None]
logits = program(ids, torch.ones_like(ids), positions)  # [rows, tokens, vocabulary]
"""


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        InputError: the base is quantised.
    """
    return Preview(4 * weights_of(job), {"dtype": "f32"}, "program")


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: the model cannot be traced, or what the stored program computes differs.
        StorageError: the folder cannot be written.
    """
    from zoo.backends.program_files import write_program

    size_bytes = preview(job).size_bytes
    check_disk(out.absolute().parent, 2 * size_bytes, "the weights are there twice for a while")
    with new_folder(out, replace=job.options.force) as folder:
        write_model(job, folder, "f32")
        with refusals_of("torch.export"):
            write_program(folder, folder)
        remove_weights(folder)
        checked = _check(job, folder) if job.options.check else None
        how = f"A program of torch.export, written with zoo-gym. {measured_line(checked)}"
        write_card(folder, job, library="pytorch", how=how, code=_CODE)
    return Report(out, "program", {"dtype": "f32"}, checked, tuple(job.own.notes))


def _check(job: Job, folder: Path) -> dict[str, Any]:
    from zoo.backends.program_files import next_logprobs

    check_prompts(job, Tuned(Source("model", folder), folder))

    return check(job, "torch.export", partial(next_logprobs, folder))
