"""The folders of imported models: one per name, each with a record of the file that it is from.

They are in the data folder of zoo-gym, not in the hub's cache. A folder appears under its name
when it is whole; until then it is hidden, and what a killed process left is removed by the next.
"""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo.core.errors import InputError, StorageError
from zoo.models.folder import holds_model
from zoo.models.gguf.parts import Stamp, is_gguf

RECORD_FILE = "gguf-source.json"
PARTIAL = ".partial-"
"""Start of the names of hidden folders that are being written."""

MOST_NAME_CHARACTERS = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)


@dataclass(frozen=True)
class Record:
    """The file that a folder is from.

    Attributes:
        file: its name, without a folder.
        sha256: the hash of its bytes, of all parts in order.
        types: the number of tensors of each ggml type.
        stamps: of its parts when it was imported; equal ones need no second hash.
        sizes: the bytes of each file that was written.
    """

    file: str
    sha256: str
    types: dict[str, int] = field(default_factory=dict[str, int])
    stamps: tuple[Stamp, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict[str, int])


def imported_folder() -> Path:
    """Returns the folder of all imported models; it need not exist."""
    home = os.environ.get("ZOO_GYM_HOME")
    if home:
        return Path(home).expanduser().absolute() / "data" / "models"
    from platformdirs import PlatformDirs

    return PlatformDirs("zoo-gym", appauthor=False).user_data_path / "models"


def imported_names() -> list[str]:
    """Returns the names of the imported models, sorted."""
    folder = imported_folder()
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if find_imported(path.name) is not None)


def find_imported(name: str) -> Path | None:
    """Returns the folder of an imported model, or None if there is none of this name."""
    if not _is_folder_name(name):
        return None
    folder = imported_folder() / name
    return folder if holds_model(folder) and read_record(folder) is not None else None


def imported_name(folder: Path) -> str | None:
    """Returns the name of the imported model in a folder, or None for another folder."""
    resolved = folder.resolve()
    inside = resolved.parent == imported_folder().resolve()
    return resolved.name if inside and find_imported(resolved.name) is not None else None


def find_source(sha256: str, name: str | None = None) -> str | None:
    """Returns the name under which a file with this hash was imported, or None.

    Args:
        sha256: the hash.
        name: the only name that will do; None for any.
    """
    records = ((each, read_record(imported_folder() / each)) for each in imported_names())
    sources = (each for each, record in records if record and record.sha256 == sha256)
    return next((each for each in sources if name in {None, each}), None)


def refuse_changed_folder(name: str) -> None:
    """Refuses an imported model whose files do not have the sizes that were written.

    Raises:
        InputError: one of them is missing, or has another size.
    """
    folder = imported_folder() / name
    record = read_record(folder)
    for file, size in (record.sizes if record else {}).items():
        path = folder / file
        got = path.stat().st_size if path.is_file() else None
        if got != size:
            raise InputError(
                f"'{path}' was changed since the import: expected {size:,} bytes, got "
                + ("no file" if got is None else f"{got:,}"),
                hint=f"remove {folder} and import the file again, or choose another --name",
                code="models.changed_since_import",
            )


def find_stamps(stamps: tuple[Stamp, ...]) -> str | None:
    """Returns the name of the model imported from files with exactly these stamps, or None."""
    records = ((name, read_record(imported_folder() / name)) for name in imported_names())
    return next((name for name, record in records if record and record.stamps == stamps), None)


def is_plain_name(name: str) -> bool:
    """Returns whether `name` can be that of an imported model; what ends in .gguf is a file."""
    return _is_folder_name(name) and not is_gguf(Path(name))


def _is_folder_name(name: str) -> bool:
    return len(name) <= MOST_NAME_CHARACTERS and _NAME.fullmatch(name) is not None


def plain_name(text: str) -> str:
    """Returns a text with all but `a-z0-9._-` replaced and without endings in .gguf.

    It is empty if nothing is left.
    """
    plain = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")
    plain = re.sub(r"-{2,}", "-", plain)[:MOST_NAME_CHARACTERS].rstrip("-._")
    while is_gguf(Path(plain)):
        plain = plain.removesuffix(".gguf").rstrip("-._")
    return plain


def read_record(folder: Path) -> Record | None:
    """Returns the record in a folder, or None if there is none that can be read."""
    try:
        content: Any = json.loads((folder / RECORD_FILE).read_bytes())
        stamps = tuple(Stamp(**stamp) for stamp in content["stamps"])
        types, sizes = dict(content["types"]), dict(content.get("sizes", {}))
        return Record(str(content["file"]), str(content["sha256"]), types, stamps, sizes)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_record(folder: Path, record: Record) -> None:
    """Writes the record of a folder, with the sizes of the files that are in it."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    text = json.dumps(asdict(replace(record, sizes=sizes)), indent=2)
    (folder / RECORD_FILE).write_text(f"{text}\n", encoding="utf-8")


@contextmanager
def partial_folder() -> Generator[Path]:
    """Makes a hidden folder for the duration of a `with` block; one process at a time has one.

    Raises:
        StorageError: the folder of imported models cannot be written.
    """
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    folder = imported_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with WeakFileLock(folder / ".lock"):
            for stale in folder.glob(f"{PARTIAL}*"):
                shutil.rmtree(stale, ignore_errors=True)
            partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder))
            try:
                yield partial
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f"cannot write a model to '{folder}': {reason}",
            hint=_hint(error),
            code="models.not_writable",
        ) from error


def _hint(error: OSError) -> str:
    """Returns what to do about an error of writing."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space, or set ZOO_GYM_HOME to a larger disk"
    if error.errno == errno.EFBIG:
        return (
            "raise the limit on the size of a file (ulimit -f), or set ZOO_GYM_HOME to another disk"
        )
    return "choose a folder that you may write: ZOO_GYM_HOME=FOLDER"


def publish(partial: Path, name: str) -> Path:
    """Syncs a finished folder and gives it its name.

    Raises:
        OSError: it cannot be written, or the name is taken.
    """
    for path in partial.iterdir():
        with path.open("rb+") as stream:
            os.fsync(stream.fileno())
    target = imported_folder() / name
    partial.rename(target)
    if os.name == "posix":
        entry = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)
    return target
