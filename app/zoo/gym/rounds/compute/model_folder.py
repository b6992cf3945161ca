"""The model folder of base plus result: named by both, and built again if its files were changed.

A round fixes the tensors that it changes, but not the rest of its base: another embedding or
tokenizer gives another model, in another folder.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from zoo.gym.delta.apply import apply_delta, copied_files
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.parents import PARENTS_FILE
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.files import read_errors, read_json_object, storage_errors, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.signing import canonical

WRITTEN_FILE = "written.json"
"""In a model folder: the BLAKE3 of each file as it was written."""


def model_folder_of(base: Path, result: str) -> Path:
    """Returns where base plus result is, or will be.

    Args:
        base: the folder of the base.
        result: the digest of the result.

    Raises:
        InputError: the base has no weights that can be read.
        StorageError: it cannot be read.
    """
    from zoo.core import digest

    weights = open_weights(base)
    read = [base / "config.json", *copied_files(base)]
    other = {str(file.relative_to(base)): _digest(file) for file in read if file.is_file()}
    whole = {"weights": identity(weights, sorted(weights.tensors)), "files": other}
    return folders().data / "models" / f"round-{result[:16]}-{digest(canonical(whole))[:16]}"


def build(folder: Path, delta: Path, base: Path) -> None:
    """Writes base plus result, unless it is there as it was written.

    Args:
        folder: see `model_folder_of`; one whose files were changed is replaced.
        delta: the file of the result.
        base: the folder of the base.

    Raises:
        InputError: the base is another one.
        StorageError: the folder cannot be written.
    """
    if is_whole(folder):
        return
    ensure_folder(folder.parent)
    with storage_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)
    apply_delta(delta, base=base, base_id=str(base), out=folder)
    written = {str(file.relative_to(folder)): _digest(file) for file in _files(folder)}
    write_beside(folder / WRITTEN_FILE, json.dumps(written, indent=2) + "\n", sync=True)


def is_whole(folder: Path) -> bool:
    """Returns whether a model folder has the files that `build` wrote, unchanged, and no others.

    Hidden files, which no loader reads, do not count.
    """
    written = read_json_object(folder / WRITTEN_FILE)
    if not written:
        return False
    there = {str(file.relative_to(folder)): file for file in _files(folder)}
    if any(not file.name.startswith(".") for name, file in there.items() if name not in written):
        return False  # such as weights that a loader prefers
    found = {name: folder / name for name in written}
    return all(file.is_file() and _digest(file) == written[name] for name, file in found.items())


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files whose digests are kept: the notes beside a model are written again."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name not in {PARENTS_FILE, WRITTEN_FILE}:
            yield file


def _digest(file: Path) -> str:
    from zoo.core import file_digest

    with read_errors(file):
        return file_digest(file, zero_at=0, zero_len=0)
