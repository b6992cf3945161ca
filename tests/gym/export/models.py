"""A model of one layer with the tokenizer of zen-pico, fine-tunes of it, and their exports."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gym.delta import models_on_disk as disk
from zoo.gym.export import run
from zoo.gym.export.job import Job, Options, Report
from zoo.models import Resolved, pico_folder

GEOMETRY = (64, 1, 4, 2, 16, 96, 264)
SHAPES = disk.qwen3_shapes(GEOMETRY)
CONFIG = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 264,
    "max_position_embeddings": 256,
    "eos_token_id": 259,
}
RANK = 3
TOKENIZER = ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json")

Change = Callable[[], object]
"""Breaks an export."""


def write_base(folder: Path, dtype: str = "float32", **config: Any) -> Path:
    """Writes random weights, small enough that logits stay near one."""
    arrays = disk.random_arrays(SHAPES, 0, 0.3)
    disk.write_model(folder, arrays, dtype, **(CONFIG | config))
    for name in TOKENIZER:
        shutil.copyfile(pico_folder() / name, folder / name)
    return folder


def write_lora(folder: Path, **config: Any) -> Path:
    """Writes a LoRA on every linear layer, with alpha twice the rank."""
    factors = disk.lora_arrays(SHAPES, RANK, 2)
    for name in factors:
        factors[name] *= 3
    return disk.write_adapter(folder, factors, RANK, base_model_name_or_path="org/tiny", **config)


def job_of(source: Path, base: Path, **options: Any) -> Job:
    """Returns an export of a source on a base."""

    def find_base(given: str | None, recorded: str | None, check: Any) -> Resolved:
        del given, recorded, check
        return Resolved("org/tiny", "org/tiny", None, base)

    return run.find_job(
        str(source), base=None, options=Options(**options), find_base=find_base, say=print
    )


def export(source: Path, base: Path, form: str, out: Path, **options: Any) -> Report:
    """Exports a source on a base."""
    return run.export(job_of(source, base, **options), form, out)
