"""An adapter folder in mlx-lm's form: the low-rank factors of a fine-tune.

mlx-lm has one rank and one scale for all layers: factors of a lower rank get rows of zeros, and the
scale is in them. Left out: factors of stacked experts, which mlx-lm names otherwise.
"""

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY, write_own
from zoo.gym.delta.reading.adapter import padded
from zoo.gym.errors import InputError
from zoo.gym.export.cards import write_card
from zoo.gym.export.checking import check, measured_line, refusals_of, require_package
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.export.peft import factors_of, require_low_rank
from zoo.gym.files import new_folder, storage_errors
from zoo.models import checkpoint_files
from zoo.models.adapters import CONFIG_FILE, WEIGHT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS_FILE = "adapters.safetensors"

_CODE = """
from mlx_lm import generate, load

model, tokenizer = load("FOLDER OF THE BASE", adapter_path="FOLDER OF THIS FILE")
messages = [{"role": "user", "content": "YOUR PROMPT"}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
print(generate(model, tokenizer, prompt=prompt))
"""


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        InputError: the fine-tune is not of low rank, or changes stacked experts.
        NotAvailableError: mlx-lm is not installed.
    """
    from zoo.backends.mlx_files import missing_package

    require_package(missing_package(), "mlx-adapter", "mlx")
    require_low_rank(job)
    shapes = [(*job.tuned.weights.shape(name), len(A)) for name, A, _ in factors_of(job)]
    rank = max(shape[-1] for shape in shapes)
    size_bytes = sum(4 * rank * sum(shape[:-1]) for shape in shapes)
    return Preview(size_bytes, {"dtype": "f32", "rank": rank}, "mlx-adapter")


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: the fine-tune is not of low rank, or what MLX computes differs.
        NotAvailableError: mlx-lm is not installed.
        StorageError: the folder cannot be written.
    """
    facts = preview(job).facts
    with new_folder(out, replace=job.options.force) as folder:
        write_factors(job, folder, facts["rank"])
        checked = _check(job, folder) if job.options.check else None
        how = f"An adapter for mlx-lm, written with zoo-gym. {measured_line(checked)}"
        write_card(folder, job, library="mlx", how=how, code=_CODE)
    base, adapter = shlex.quote(job.base.id), shlex.quote(str(out))
    command = f"mlx_lm.chat --model {base} --adapter-path {adapter}"
    return Report(out, "mlx-adapter", facts, checked, tuple(job.own.notes), command)


def write_factors(job: Job, folder: Path, rank: int) -> None:
    """Writes the factors, their config, and what differs in the tokenizer.

    Raises:
        InputError: the adapter changes more than mlx-lm's linear layers.
        StorageError: the folder cannot be written.
    """
    from safetensors.numpy import save_file

    arrays: dict[str, NDArray[np.float32]] = {}
    for name, A, B in factors_of(job):
        if not name.endswith(WEIGHT) or ".experts." in name:
            raise InputError(
                f"{job.label}: expected changes of linear layers for mlx-lm, got {name!r}",
                hint="--format mlx",
                code="export.not_for_mlx",
            )
        module = name.removesuffix(WEIGHT)
        arrays[f"{module}.lora_a"] = padded(A, rank).T.copy()
        arrays[f"{module}.lora_b"] = padded(B, rank)
    layers = sorted({name.rpartition(".")[0] for name in arrays})
    scaled = {"rank": rank, "scale": 1.0, "dropout": 0.0, "keys": layers}
    config = {"fine_tune_type": "lora", "num_layers": 0, "lora_parameters": scaled}
    with storage_errors(folder):
        save_file(arrays, folder / WEIGHTS_FILE)
        text = json.dumps(config | {"model": job.base.id}, indent=2) + "\n"
        (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
        if job.own.parts:
            write_own(folder, {TOKENIZER_KEY: job.own.parts})


def _check(job: Job, folder: Path) -> dict[str, Any]:
    """Compares what mlx-lm computes from the base and the adapter, with the source."""
    from zoo.backends.mlx_files import next_logprobs, write_settings

    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        base = Path(scratch)
        with refusals_of("mlx-lm"):
            write_settings(job.base.folder, base)
        for file in checkpoint_files(job.base.folder):
            (base / f"model-{file.name}").symlink_to(file.absolute())
        return check(job, "MLX", lambda prompts, most: next_logprobs(base, prompts, most, folder))
