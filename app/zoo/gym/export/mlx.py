"""A model folder for mlx-lm, converted and opened by it; quantised on request.

Below eight bits the difference to the source is that of the codes. So the codes are read back here,
each as its value, loaded in our engine and compared with MLX: that finds what is wrong with them.
"""

import math
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from zoo.backends.mlx_files import GROUP
from zoo.gym.errors import InputError
from zoo.gym.export.cards import write_card
from zoo.gym.export.checking import (
    REPORT,
    check,
    check_prompts,
    measured_line,
    refusals_of,
    require,
    require_package,
)
from zoo.gym.export.comparison import MOST, difference, next_logprobs, prompts_of
from zoo.gym.export.hf import MAX_KL, Dtype, dtype_of, write_model
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.files import new_folder
from zoo.gym.tuned.opened import Tuned
from zoo.gym.tuned.source import Source
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import INDEX_FILE

BITS = {"2bit": 2, "3bit": 3, "4bit": 4, "5bit": 5, "6bit": 6, "8bit": 8}
"""The values of `--quantization`."""

MAX_KL_OF_8_BITS = 1e-2
MAX_KL_OF_CODES = 1e-6
"""The largest mean KL of codes to their own values, in float32."""

_ITEM_BITS: dict[Dtype, int] = {"f32": 32, "bf16": 16, "f16": 16}

CODE = """
from mlx_lm import generate, load

model, tokenizer = load("FOLDER OF THIS FILE")
messages = [{"role": "user", "content": "YOUR PROMPT"}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
print(generate(model, tokenizer, prompt=prompt))
"""


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        InputError: no matrix, or with `strict` not every one, can have the chosen bits.
        NotAvailableError: mlx-lm is not installed.
    """
    from zoo.backends.mlx_files import missing_package

    require_package(missing_package(), "mlx", "mlx")
    dtype, shapes, bits = dtype_of(job), job.tuned.merged_shapes, _bits_of(job)
    matrices = {name for name, shape in shapes.items() if bits and len(shape) == 2}
    coded = {name for name in matrices if shapes[name][1] % GROUP == 0}
    narrow = dict.fromkeys(sorted(matrices - coded), dtype)
    if bits is None:
        weights = sum(map(math.prod, shapes.values()))
        return Preview(weights * _ITEM_BITS[dtype] // 8, {"dtype": dtype}, f"mlx-{dtype}")
    _refuse_narrow(job, coded, narrow)
    per_code = bits + 2 * _ITEM_BITS[dtype] / GROUP
    sizes = {name: per_code if name in coded else _ITEM_BITS[dtype] for name in shapes}
    total = sum(math.prod(shape) * sizes[name] for name, shape in shapes.items())
    facts = {
        "dtype": dtype,
        "types": {job.options.quantization: len(coded), dtype: len(shapes) - len(coded)},
        "bits_per_weight": total / sum(map(math.prod, shapes.values())),
        "fallbacks": narrow,
    }
    return Preview(math.ceil(total / 8), facts, f"mlx-{job.options.quantization}")


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: mlx-lm lacks the architecture, or what it computes differs.
        NotAvailableError: mlx-lm is not installed.
        StorageError: the folder cannot be written.
    """
    from zoo.backends.mlx_files import convert, write_settings

    facts = preview(job).facts
    with new_folder(out, replace=job.options.force) as folder:
        write_model(job, folder, dtype_of(job))
        with refusals_of("mlx-lm"):
            write_settings(folder, folder)
            convert(folder, folder / "converted", _bits_of(job))
        _take_weights(folder, folder / "converted")
        checked = _check(job, folder) if job.options.check else None
        how = f"Converted for mlx-lm with zoo-gym. {measured_line(checked)}"
        write_card(folder, job, library="mlx", how=how, code=CODE)
    command = f"mlx_lm.chat --model {shlex.quote(str(out))}"
    return Report(out, "mlx", facts, checked, tuple(job.own.notes), command)


def _bits_of(job: Job) -> int | None:
    chosen = job.options.quantization
    if chosen is None:
        return None
    if chosen not in BITS:
        raise InputError(
            f"quantization: expected one of {', '.join(BITS)} with --format mlx, got {chosen!r}",
            code="export.bad_quantization",
        )
    return BITS[chosen]


def _refuse_narrow(job: Job, coded: set[str], narrow: Mapping[str, str]) -> None:
    if not coded:
        raise InputError(
            f"quantization: expected matrices whose rows are a multiple of {GROUP} for "
            f"{job.options.quantization}, got none: no tensor would have that type",
            hint="leave out --quantization",
            code="export.no_such_type",
        )
    if narrow and job.options.strict:
        raise InputError(
            f"--strict: expected every matrix in {job.options.quantization}, got {len(narrow)} "
            f"others, such as {next(iter(narrow))}",
            hint="leave out --strict",
            code="export.narrow",
        )


def _take_weights(folder: Path, converted: Path) -> None:
    """Replaces weights and config by the converted ones; tokenizer and settings stay ours."""
    for file in (*checkpoint_files(folder), folder / INDEX_FILE):
        file.unlink(missing_ok=True)
    for file in converted.iterdir():
        if file.suffix == ".safetensors" or file.name in (INDEX_FILE, "config.json"):
            file.replace(folder / file.name)
        else:
            file.unlink()
    converted.rmdir()


def _check(job: Job, folder: Path) -> dict[str, Any]:
    from zoo.backends import mlx_files

    check_prompts(job, Tuned(Source("model", folder), folder))
    bits, dtype, limit, hint = _bits_of(job), dtype_of(job), None, REPORT
    if bits is not None:
        limit = MAX_KL_OF_8_BITS if bits == BITS["8bit"] else math.inf
    elif dtype != "f32":
        limit, hint = MAX_KL, "--dtype f32"

    measured = check(job, "MLX", partial(mlx_files.next_logprobs, folder), max_kl=limit, hint=hint)
    if bits is not None:
        measured["kl_to_own_values"] = _kl_to_own_values(job, folder, bits)
    return measured


def _kl_to_own_values(job: Job, folder: Path, bits: int) -> float:
    """Compares MLX with our engine on the values of the codes.

    Raises:
        InputError: they differ.
    """
    from zoo.backends import mlx_files
    from zoo.backends.base import LoadSpec
    from zoo.gym.delta.apply import new_config
    from zoo.gym.engine import engine_for

    values = folder / "values"
    values.mkdir()
    (values / "config.json").write_text(new_config(job.folder, "f32"), encoding="utf-8")
    mlx_files.write_values(folder, values, bits)
    prompts = prompts_of(job)
    policy = engine_for(values).load(values, LoadSpec(dtype="f32"))
    theirs = mlx_files.next_logprobs(folder, prompts, 2 * MOST)
    kl = difference(next_logprobs(policy, prompts, MOST), theirs).kl
    for file in values.iterdir():
        file.unlink()
    values.rmdir()
    require(kl, MAX_KL_OF_CODES, "mean KL to its own values", "MLX")
    return kl
