"""Ollama, with the fine-tune as an adapter on a GGUF file of its base."""

from dataclasses import replace
from pathlib import Path

from zoo.gym.export import gguf, gguf_lora
from zoo.gym.export.go_template import pieces_of
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.export.ollama import WEIGHTS, name_of, reported, write_modelfile
from zoo.gym.files import new_folder

ADAPTER = "adapter.gguf"


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        GymError: see `gguf.plan`, `gguf_lora.preview` and `go_template.pieces_of`.
    """
    pieces_of(job)
    name_of(job)
    factors = gguf_lora.preview(_in_float32(job))
    base = gguf.preview(gguf_lora.base_of(job))
    return Preview(base.size_bytes + factors.size_bytes, {**base.facts, **factors.facts}, base.tag)


def _in_float32(job: Job) -> Job:
    """Returns the job of the factors: the chosen type is that of the base."""
    return replace(job, options=replace(job.options, quantization=None, strict=False))


def write(job: Job, out: Path) -> Report:
    """Writes a folder whose Modelfile applies an adapter to a GGUF file of the base.

    Raises:
        InputError: see `write` and `gguf_lora.write`.
        StorageError: the folder cannot be written.
    """
    with new_folder(out, replace=job.options.force) as folder:
        base = replace(gguf_lora.base_of(job), options=replace(job.options, check=False, name=None))
        gguf.write(base, folder / WEIGHTS)
        report = gguf_lora.write(_in_float32(job), folder / ADAPTER)
        write_modelfile(job, folder, ADAPTER)
    return reported(job, out, "ollama-lora", report)
