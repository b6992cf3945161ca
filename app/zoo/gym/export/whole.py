"""Whole weights of fine-tunes that are no sums of base and factors: DoRA, biases, saved modules.

peft merges them, in float32 and in memory; all others are merged tensor by tensor.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zoo.gym.delta.apply import copy_files
from zoo.gym.errors import InputError
from zoo.gym.export.job import Job
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.source import Source

NOT_FACTORS = "delta.adapter_not_supported"


@contextmanager
def with_weights(job: Job) -> Generator[Job]:
    """Yields a job whose tensors can be read one by one, for the duration of a `with` block.

    Raises:
        InputError: the adapter is damaged, or peft cannot merge it.
        StorageError: the temporary folder cannot be written.
    """
    if not _needs_peft(job):
        yield job
        return
    from zoo.backends.plain import merge_adapter

    job.say("merging by peft, which needs the whole model in memory")
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        folder = Path(scratch) / "model"
        try:
            merge_adapter(job.base.folder, job.tuned.source.path, folder)
        except (ValueError, NotImplementedError) as error:
            raise InputError(
                f"{job.tuned.source.path}: expected an adapter that peft can merge: {error}",
                code="export.not_mergeable",
            ) from error
        copy_files(job.base.folder, folder)
        yield replace(job, tuned=open_tuned(Source("model", folder), folder), compared=job.tuned)


def _needs_peft(job: Job) -> bool:
    if job.tuned.source.artifact != "adapter":
        return False
    try:
        _ = job.tuned.changes
    except InputError as error:
        if error.code == NOT_FACTORS:
            return True
        raise
    return False
