"""The sampled answers of a run: a JSON object per line, readable only by its owner.

Each step appends its lines in one write. A resume removes the lines of the steps that it repeats,
and a partial line of a killed worker.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.gym.files import storage_errors, write_beside
from zoo.gym.files.atomic import private

SAMPLES_FILE = "samples.jsonl"


def append_samples(file: Path, samples: Sequence[Mapping[str, object]]) -> None:
    """Appends samples.

    Raises:
        StorageError: the disk is full or not writable.
    """
    lines = "".join(json.dumps(sample, allow_nan=False) + "\n" for sample in samples)
    with storage_errors(file), open(file, "ab", buffering=0, opener=private) as opened:
        opened.write(lines.encode("utf-8"))


def keep_samples(file: Path, last_step: int) -> None:
    """Removes the samples of steps after `last_step`, and damaged lines.

    Raises:
        StorageError: the file cannot be replaced; it is unchanged.
    """
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    earlier = [line for line in lines if _step_of(line) <= last_step]
    if len(earlier) < len(lines):
        write_beside(file, "".join(f"{line}\n" for line in earlier))


def _step_of(line: str) -> float:
    """Returns the step of a line, infinity for a damaged one."""
    try:
        sample: Any = json.loads(line)
        return int(sample["step"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return float("inf")
