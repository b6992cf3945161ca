"""ONNX: two graphs in float32, without a cache and with one, that onnxruntime opens.

Both share one file of weights. The line for TensorRT is printed; nothing here runs it.
"""

import shlex
from functools import partial
from pathlib import Path
from typing import Any

from zoo.gym.errors import InputError
from zoo.gym.export.cards import write_card
from zoo.gym.export.checking import (
    MAX_LOGPROB,
    REPORT,
    check,
    check_prompts,
    measured_line,
    refusals_of,
    require_package,
    weights_of,
)
from zoo.gym.export.comparison import prompts_of
from zoo.gym.export.hf import write_model
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.files import new_folder
from zoo.gym.tuned.opened import Tuned
from zoo.gym.tuned.source import Source
from zoo.models import checkpoint_files
from zoo.models.checkpoint_files import INDEX_FILE
from zoo.models.folder import model_positions
from zoo.models.hub import check_disk

_CODE = """
import numpy as np
import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER OF THIS FILE")
session = onnxruntime.InferenceSession("FOLDER OF THIS FILE/model.onnx")
ids = tokenizer("YOUR PROMPT", return_tensors="np")["input_ids"]
feed = {
    "input_ids": ids,
    "attention_mask": np.ones_like(ids),
    "position_ids": np.arange(ids.shape[1])[None],
}
logits = session.run(["logits"], feed)[0]  # [rows, tokens, vocabulary]
"""
_CACHED = (
    "`model_with_past.onnx` also takes `past_key_values.N.key` and `.value` of each layer, of no "
    "tokens at first, and returns them as `present.N.key` and `.value`; its mask covers past and "
    "new tokens."
)


def preview(job: Job) -> Preview:
    """Returns what the folder will be.

    Raises:
        InputError: the base is quantised.
        NotAvailableError: a package of the extra is not installed.
    """
    from zoo.backends.onnx_files import missing_package

    require_package(missing_package(), "onnx", "onnx")
    return Preview(4 * weights_of(job), {"dtype": "f32"}, "onnx")


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: the model cannot be traced, or what onnxruntime computes differs.
        NotAvailableError: a package of the extra is not installed.
        StorageError: the folder cannot be written.
    """
    from zoo.backends.onnx_files import PLAIN, write_graphs

    size_bytes = preview(job).size_bytes
    check_disk(out.absolute().parent, 2 * size_bytes, "the weights are there twice for a while")
    with new_folder(out, replace=job.options.force) as folder:
        write_model(job, folder, "f32")
        with refusals_of("torch.export"):
            write_graphs(folder, folder)
        remove_weights(folder)
        checked = _check(job, folder) if job.options.check else None
        how = f"Two ONNX graphs, written with zoo-gym. {_CACHED}\n\n{measured_line(checked)}"
        write_card(folder, job, library="onnx", how=how, code=_CODE)
    notes = (*job.own.notes, f"TensorRT, not tried here: {trtexec(out / PLAIN, job.folder)}")
    return Report(out, "onnx", {"dtype": "f32"}, checked, notes)


def trtexec(graph: Path, folder: Path) -> str:
    """Returns the line that makes an engine of TensorRT from the graph without a cache."""
    from zoo.backends.onnx_files import INPUTS

    most = min(model_positions(folder) or 2048, 2048)

    def shapes(rows: int, tokens: int) -> str:
        return ",".join(f"{name}:{rows}x{tokens}" for name in INPUTS)

    words = ["trtexec", f"--onnx={graph}", f"--saveEngine={graph.with_suffix('.plan')}"]
    words += [f"--minShapes={shapes(1, 1)}", f"--optShapes={shapes(1, min(most, 256))}"]
    return shlex.join([*words, f"--maxShapes={shapes(8, most)}"])


def remove_weights(folder: Path) -> None:
    """Removes the weights of a model folder, whose tokenizer and settings stay."""
    for file in (*checkpoint_files(folder), folder / INDEX_FILE):
        file.unlink(missing_ok=True)


def _check(job: Job, folder: Path) -> dict[str, Any]:
    """Compares the graph without a cache with the source, and the other one with it.

    Raises:
        InputError: they differ.
    """
    from zoo.backends.onnx_files import cache_difference, next_logprobs, open_graphs

    check_prompts(job, Tuned(Source("model", folder), folder))
    graphs = open_graphs(folder)

    measured = check(job, "onnxruntime", partial(next_logprobs, graphs))
    apart = cache_difference(graphs, prompts_of(job))
    if not apart <= MAX_LOGPROB:
        raise InputError(
            f"the graph with a cache: expected log-probabilities within {MAX_LOGPROB:g} of those "
            f"without, got {apart:.3g}; nothing was written",
            hint=REPORT,
            code="export.other_results",
        )
    return {**measured, "cache_difference": apart}
