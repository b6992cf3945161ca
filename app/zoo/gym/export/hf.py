"""A model folder: base plus fine-tune, as transformers, vLLM and others load it.

Sums are float32. The type of the base is kept only where that loses nothing that can be measured:
bfloat16 rounds away what a small fine-tune changes. Weights are never merged into codes.
"""

import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY, write_own
from zoo.gym.delta.apply import (
    SHARD_BYTES,
    Written,
    copy_files,
    new_config,
    shards_of,
    write_shards,
)
from zoo.gym.delta.codecs.floats import finite_bf16, to_bf16
from zoo.gym.delta.file.writer import ITEM_BYTES, Entry
from zoo.gym.delta.origin.card import write_rebuilt_card
from zoo.gym.delta.origin.record import keep_joint
from zoo.gym.delta.progress import ignore
from zoo.gym.delta.reading.weights import FLOATS, Weights, open_weights, stored_bytes
from zoo.gym.delta.rebuild import Rebuild
from zoo.gym.errors import InputError
from zoo.gym.export.checking import MAX_KL_AS_STORED, REPORT, check, measured_line
from zoo.gym.export.comparison import comparison_dtype
from zoo.gym.export.job import Job, Preview, Report
from zoo.gym.files import new_folder, storage_errors
from zoo.gym.tuned.opened import Tuned
from zoo.models.folder import read_object

if TYPE_CHECKING:
    from numpy.typing import NDArray

Dtype = Literal["f32", "bf16", "f16"]
TYPES: dict[Dtype, str] = {"f32": "F32", "bf16": "BF16", "f16": "F16"}

MAX_KL = 1e-4
"""The largest mean KL to base plus fine-tune, in nats, that a type of weights may cost."""

GENERATION = "generation_config.json"


@dataclass(frozen=True)
class _Merged:
    """The tensors of base plus fine-tune in a type."""

    tuned: Tuned
    base: Weights
    dtype: Dtype

    def entry(self, name: str) -> Entry:
        """Returns the entry of a tensor in the new folder; integers keep their type."""
        stored = self.base.dtype(name)
        dtype = TYPES[self.dtype] if stored in FLOATS else stored
        return Entry(name, dtype, self.base.shape(name))

    def pieces(self, name: str) -> "Iterator[NDArray[Any]]":
        """Yields a tensor."""
        import numpy as np

        if self.base.dtype(name) not in FLOATS:
            yield stored_bytes(self.base, name)
            return
        values = self.tuned.merged(name)
        written: NDArray[Any] = values
        with np.errstate(over="ignore"):
            if self.dtype == "f16":
                written = values.astype(np.float16)
            elif self.dtype == "bf16":
                written = to_bf16(values)
        whole = finite_bf16(written) if self.dtype == "bf16" else np.isfinite(written).all()
        if not whole:
            raise InputError(
                f"tensor {name!r}: expected finite weights in {self.dtype}, got values beyond it",
                hint="--dtype f32",
                code="export.not_finite",
            )
        yield written


def preview(job: Job) -> Preview:
    """Returns what the folder will be."""
    dtype = dtype_of(job)
    weights = sum(math.prod(shape) for shape in job.tuned.merged_shapes.values())
    return Preview(weights * ITEM_BYTES[TYPES[dtype]], {"dtype": dtype}, dtype)


def write(job: Job, out: Path) -> Report:
    """Writes the folder.

    Raises:
        InputError: the base is quantised, the type loses what the fine-tune changed, or what
            transformers computes differs.
        StorageError: the folder cannot be written.
    """
    dtype = dtype_of(job)
    with new_folder(out, replace=job.options.force) as folder:
        write_model(job, folder, dtype)
        checked = _check(job, folder, dtype) if job.options.check else None
        how = f"Merged with zoo-gym from the base and a fine-tune. {measured_line(checked)}"
        write_rebuilt_card(folder, job.base, job.record.stored, how)
    notes = tuple(job.own.notes)
    command = f"zoo-gym chat --model {shlex.quote(str(out))}"
    return Report(out, "hf", {"dtype": dtype}, checked, notes, command)


def dtype_of(job: Job) -> Dtype:
    """Returns the type of the written weights: the chosen one, or that of the base's largest part.

    Raises:
        InputError: there is no such type.
    """
    chosen = job.options.dtype
    if chosen is not None:
        if chosen not in get_args(Dtype):
            raise InputError(
                f"dtype: expected one of {', '.join(get_args(Dtype))}, got {chosen!r}",
                code="export.bad_dtype",
            )
        return cast("Dtype", chosen)
    weights = open_weights(job.folder)
    sizes: dict[str, int] = {}
    for name in weights.tensors:
        if (kind := weights.dtype(name)) in FLOATS:
            sizes[kind] = sizes.get(kind, 0) + weights.nbytes(name)
    return FLOATS[max(sizes, key=sizes.__getitem__)] if sizes else "f32"


def write_model(job: Job, folder: Path, dtype: Dtype) -> None:
    """Writes weights, config, tokenizer and generation settings into an empty folder.

    Raises:
        InputError: the base is quantised, or a value is beyond the type.
        StorageError: the folder cannot be written.
    """
    copy_files(job.folder, folder)
    with storage_errors(folder):
        (folder / "config.json").write_text(new_config(job.folder, dtype), encoding="utf-8")
        keep_joint(folder, job.record.stored)
        if job.own.parts:
            write_own(folder, {TOKENIZER_KEY: job.own.parts})
        _write_stops(job, folder)
    tensors = _tensors(job, dtype)
    write_shards(folder, tensors, shards_of(tensors, SHARD_BYTES), ignore)


def _tensors(job: Job, dtype: Dtype) -> Written:
    source = job.tuned.source
    if source.artifact == "delta" and dtype != "f16":  # the bytes of `delta apply`
        return Rebuild(source.delta, job.tuned.weights, dtype, 1.0)
    weights = open_weights(source.path) if source.artifact == "model" else job.tuned.weights
    return _Merged(job.tuned, weights, dtype)


def _write_stops(job: Job, folder: Path) -> None:
    """States all tokens that end an answer, which other programs read from this file alone."""
    path = folder / GENERATION
    settings = read_object(path) if path.is_file() else {}
    stated = settings.get("eos_token_id")
    listed = stated if isinstance(stated, list) else [stated]
    if set(job.stops) != set(listed):
        settings["eos_token_id"] = list(job.stops) if len(job.stops) != 1 else job.stops[0]
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _check(job: Job, folder: Path, dtype: Dtype) -> dict[str, Any]:
    """Compares what plain transformers computes from the folder with the source.

    Raises:
        InputError: it differs by more than `MAX_KL`, or the limit of what is too large for float32.
    """
    from zoo.backends.plain import next_logprobs

    loaded = comparison_dtype(job)

    limit = MAX_KL if loaded == "f32" else MAX_KL_AS_STORED
    hint = "--dtype f32" if dtype != "f32" else REPORT
    logprobs = partial(next_logprobs, folder, dtype=loaded)
    return check(job, "transformers", logprobs, max_kl=limit, hint=hint)
