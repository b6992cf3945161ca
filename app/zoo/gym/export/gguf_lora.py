"""GGUF-LoRA: a fine-tune as an adapter that llama.cpp applies to a GGUF file of its base.

Factors have their scale in them, and one rank, so `alpha` is that rank: llama.cpp multiplies by
alpha / rank, and by 1 without a word where the key is missing.
"""

import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.reading.adapter import padded
from zoo.gym.errors import InputError
from zoo.gym.export import gguf
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.export.llamacpp import check_adapter_file
from zoo.gym.export.whole import NOT_FACTORS
from zoo.gym.files import new_file
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.source import Source
from zoo.models.gguf.writing.settings import family_of
from zoo.models.gguf.writing.tensors import Tensor, plan_tensors
from zoo.models.gguf.writing.types import stored_bytes
from zoo.models.gguf.writing.writer import Content, write_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TYPES = {"f32": "F32", "f16": "F16"}

_HINT = "--format gguf or hf writes the whole model"


def preview(job: Job) -> Preview:
    """Returns what the file will be.

    Raises:
        InputError: the fine-tune cannot be an adapter in GGUF.
    """
    kind = _kind(job)
    contents, rank, _ = _plan(job, kind)
    size = sum(stored_bytes(shape, kind) for _, shape, kind, _ in contents)
    return Preview(size, {"rank": rank, "tensors": len(contents) // 2, "type": kind}, "lora")


def write(job: Job, out: Path) -> Report:
    """Writes the file.

    Raises:
        InputError: the fine-tune cannot be an adapter in GGUF, or llama.cpp computes something
            else with it.
        StorageError: the file cannot be written.
    """
    kind = _kind(job)
    contents, rank, architecture = _plan(job, kind)
    keys = {
        "general.architecture": architecture,
        "general.type": "adapter",
        "general.name": job.options.name or job.label,
        "adapter.type": "lora",
        "adapter.lora.alpha": float(rank),
    }
    with new_file(out, replace=job.options.force) as partial:
        write_file(partial, keys, contents)
        checked = None
        if job.options.check:
            with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
                base = _base_file(job, Path(scratch))
                checked = check_adapter_file(job, base, partial)
    facts = {"rank": rank, "tensors": len(contents) // 2, "type": kind}
    first = f"zoo-gym export {shlex.quote(job.base.name)} --out base.gguf"
    command = (
        f"{first} && zoo-gym chat --model base.gguf --adapter_name_or_path {shlex.quote(str(out))}"
    )
    return Report(out, "gguf-lora", facts, checked, tuple(job.own.notes), command)


def _kind(job: Job) -> str:
    chosen = job.options.quantization or "f32"
    if chosen not in TYPES:
        raise InputError(
            f"quantization: expected f32 or f16 for the factors of an adapter, got {chosen!r}",
            code="export.bad_quantization",
        )
    return TYPES[chosen]


def _plan(job: Job, kind: str) -> tuple[list[Content], int, str]:
    """Returns the tensors, their rank and the architecture.

    Raises:
        InputError: a change has no factors, or no place in the file.
    """
    from transformers import AutoConfig

    source = job.tuned.source
    if source.artifact == "model":
        raise InputError(
            f"{source.path}: expected an adapter or a delta of low rank, got whole weights",
            hint=_HINT,
            code="export.not_low_rank",
        )
    config: Any = AutoConfig.from_pretrained(str(job.folder), local_files_only=True)
    family = family_of(config)
    shapes = job.tuned.merged_shapes
    places = {tensor.parts: tensor for tensor in plan_tensors(shapes, config, family)}
    try:
        changes = job.tuned.changes
    except InputError as error:
        if error.code != NOT_FACTORS:
            raise
        raise InputError(error.message, hint=_HINT, code="export.not_low_rank") from None
    factors: list[tuple[Tensor, NDArray[np.float32], NDArray[np.float32]]] = []
    for name in changes.names:
        pair, place = changes.decoded_factors(name), places.get((name,))
        if pair is None or place is None or len(place.shape) != 2:
            what = "stacked experts" if pair is not None else changes.kind
            raise InputError(
                f"{name}: expected a change of low rank of a linear layer, got {what}",
                hint=_HINT,
                code="export.not_low_rank",
            )
        factors.append((place, *pair))
    rank = max(len(A) for _, A, _ in factors)
    contents: list[Content] = []
    for place, A, B in factors:
        contents += _contents(place, A, B, rank, kind)
    return contents, rank, family.architecture


def _contents(
    place: Tensor, A: "NDArray[np.float32]", B: "NDArray[np.float32]", rank: int, kind: str
) -> list[Content]:
    """Returns both factors of a tensor; A is [r, in], and B [r, out] is stored as [out, r]."""
    import numpy as np

    wide, tall = padded(A, rank), padded(B, rank).T
    rows = place.arrange(np.ascontiguousarray(tall))  # queries and keys are permuted as the base's
    return [
        (f"{place.name}.lora_a", wide.shape, kind, lambda: wide),
        (f"{place.name}.lora_b", rows.shape, kind, lambda: np.ascontiguousarray(rows)),
    ]


def base_of(job: Job) -> Job:
    """Returns the job of the base alone."""
    source = Source("model", job.base.folder)
    return Job(open_tuned(source, job.base.folder), job.base, job.base.id, job.options)


def _base_file(job: Job, folder: Path) -> Path:
    """Writes the base in float16, to apply the adapter to."""
    options = replace(job.options, quantization="f16", check=False, strict=False, template=None)
    file = folder / "base.gguf"
    gguf.write(replace(base_of(job), options=options), file)
    return file
