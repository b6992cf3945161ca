"""Finds, checks and reads data files; refuses other formats, and reports what they are."""

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.data.reading.parquet import MAGIC, check_parquet
from zoo.gym.data.reading.parquet import SUFFIX as PARQUET
from zoo.gym.data.reading.streams import BOM, COMPRESSED, data_suffix, read_bytes, read_head
from zoo.gym.errors import InputError, NotAvailableError

_HEAD_BYTES = 8192
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_LFS = b"version https://git-lfs"
_NOT_READ = frozenset({".arrow", ".bz2", ".tar", ".tgz", ".xlsx", ".xz", ".zip", ".zst"})
_OF_THIS_PROCESS = ("/dev/stdin", "/dev/fd/", "/proc/")
_READ = "json, jsonl, csv, tsv, parquet or plain text"
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", PARQUET})
_TEST = re.compile(r"(?<![^\W_])test(?![^\W_])", re.IGNORECASE)
_VALIDATION = re.compile(
    r"(?<![^\W_])(valid|validation|val|dev|eval|evaluation)(?![^\W_])", re.IGNORECASE
)
_ABOUT = re.compile(
    r"dataset_infos?\.json|metadata\.json|state\.json|(licen[cs]e|readme|notice)\.txt",
    re.IGNORECASE,
)
"""Files that libraries and people put beside the data, and that describe it."""

_CONVERSATIONS = "conversations.json"
_OF_EXPORTS = re.compile(
    r"(users?|user_settings|message_feedback|model_comparisons|shared_conversations|projects"
    r"|memories|group_chats|sora|shopping)\.json"
)
"""Files beside the conversations in an export of ChatGPT or Claude."""


@dataclass(frozen=True)
class DataFiles:
    """Data files by what they are for.

    Attributes:
        train: to learn from.
        validation: of folders; their names say that they are held out.
        test: of folders; their names say that they are neither learned nor evaluated on.
    """

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()

    @property
    def used(self) -> tuple[Path, ...]:
        """Those to learn from, then those that are held out."""
        return self.train + self.validation


def data_files(paths: Sequence[Path]) -> DataFiles:
    """Returns the data files: those given, and in the place of a folder all those in it, by name.

    Hidden files, files about the data and those with other suffixes, such as code, are no data. A
    compressed file without a suffix of its format is; its content says which. A file that is given
    itself is one to learn from, whatever its name.

    Raises:
        InputError: a folder has no data files to learn from, or also data in a format that is not
            read, or a link that is not followed.
    """
    found = _sorted_files(paths)
    if paths and not found.train:
        names = ", ".join(map(str, (*found.validation, *found.test)))
        raise InputError(
            f"expected files to learn from, got only {names}",
            hint="a file that is given by its own name is learned, whatever that is",
        )
    return found


def _sorted_files(paths: Sequence[Path]) -> DataFiles:
    found = [_of_folder(path) if path.is_dir() else DataFiles((path,)) for path in paths]
    return DataFiles(
        tuple(file for one in found for file in one.train),
        tuple(file for one in found for file in one.validation),
        tuple(file for one in found for file in one.test),
    )


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Returns the data files where all are for one purpose, as examples to measure on are.

    Raises:
        InputError: see `data_files`, or their names say several purposes.
    """
    found = _sorted_files(paths)
    purposes = [files for files in (found.train, found.validation, found.test) if files]
    if len(purposes) > 1:
        raise InputError(
            f"expected files for one purpose, got {purposes[0][0]} and {purposes[1][0]}",
            hint="give the files one by one in place of their folder",
        )
    return [file for files in purposes for file in files]


def _of_folder(folder: Path) -> DataFiles:
    names = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    names = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    exported = {name.parent for name in names if name.name == _CONVERSATIONS}
    names = [
        name for name in names if not (name.parent in exported and _OF_EXPORTS.fullmatch(name.name))
    ]
    for name in names:
        _refuse_in_folder(folder, name)
    data = [name for name in names if _is_data(name) and (folder / name).is_file()]
    if not data:
        suffixes = ", ".join(sorted(_SUFFIXES))
        raise InputError(f"{folder}: expected files of examples ({suffixes}), got none")
    test = [name for name in data if _TEST.search(str(name))]
    validation = [name for name in data if name not in test and _VALIDATION.search(str(name))]
    train = [name for name in data if name not in test and name not in validation]
    whole = (tuple(folder / name for name in names) for names in (train, validation, test))
    return DataFiles(*whole)


def _is_data(name: Path) -> bool:
    by_content = name.suffix.lower() == COMPRESSED and not data_suffix(name)
    return (by_content or data_suffix(name) in _SUFFIXES) and _ABOUT.fullmatch(name.name) is None


def _refuse_in_folder(folder: Path, name: Path) -> None:
    """Refuses what may be data and would be passed over."""
    path = folder / name
    if path.is_symlink() and not path.exists():
        raise InputError(f"{path}: expected a file, got a link to nothing", hint="remove the link")
    if path.is_symlink() and path.is_dir():
        raise InputError(
            f"{path}: expected a folder of its own, got a link, which is not followed",
            hint="name the folder that it leads to beside this one",
        )
    if data_suffix(name) in _NOT_READ and path.is_file():
        raise InputError(
            f"{path}: expected {_READ}, got {data_suffix(name)[1:]}",
            hint="convert it, move it away, or give the files to learn from one by one",
        )


def check_file(path: Path) -> bytes:
    """Returns the first bytes of a data file, without a byte order mark.

    Args:
        path: the file given by the user.

    Raises:
        NotAvailableError: there is no such file, or no permission to read it.
        InputError: it is a folder, a pipe, empty, not text, or in an unsupported format.
    """
    if not path.exists():
        raise NotAvailableError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: expected a file, got a folder", hint="give the files in it")
    _refuse_streams(path)
    if data_suffix(path) in _NOT_READ:
        raise InputError(f"{path}: expected {_READ}, got {data_suffix(path)[1:]}")
    try:
        head = read_head(path, _HEAD_BYTES)
    except PermissionError:
        raise NotAvailableError(f"{path}: no permission to read the file") from None
    if is_parquet(path, head):
        check_parquet(path)
        return head
    _refuse_other_than_text(path, head)
    return head.removeprefix(BOM)


def is_parquet(path: Path, head: bytes) -> bool:
    """Returns whether a file is read as parquet: by its first bytes, or else by its name."""
    return head.startswith(MAGIC) or (path.suffix.lower() == PARQUET and not head.startswith(_LFS))


def _refuse_streams(path: Path) -> None:
    """Refuses files that can be read only once or only by this process: data is read repeatedly.

    A run reads its data when it starts, when it is resumed and when its delta is measured, each
    time in a different process, where `/dev/stdin` is a different file.
    """
    mode = path.stat().st_mode
    own = os.path.abspath(path).startswith(_OF_THIS_PROCESS)  # noqa: PTH100  keeps the links
    if stat.S_ISREG(mode) and not own:
        return
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device"}
    got = kinds.get(stat.S_IFMT(mode), "a stream of this process")
    raise InputError(
        f"{path}: expected a file on disk, got {got}",
        hint="save its contents to a file first: data is read more than once",
    )


def _refuse_other_than_text(path: Path, head: bytes) -> None:
    if not head.removeprefix(BOM).strip():
        raise InputError(f"{path}: empty file: expected rows of data, got none")
    if head.startswith(_LFS):
        raise InputError(
            f"{path}: expected {_READ}, got a Git LFS pointer",
            hint="download it with: git lfs pull",
        )
    if head.startswith(_UTF16_BOMS):
        raise InputError(f"{path}: expected UTF-8 text, got UTF-16", hint="save it as UTF-8")
    _refuse_zero_bytes(path, head)


def _refuse_zero_bytes(path: Path, raw: bytes) -> None:
    at = raw.find(b"\0")
    if at >= 0:
        raise InputError(f"{path}: not text: expected {_READ}, got a zero byte at offset {at}")


def read_text(path: Path) -> str:
    """Returns a whole file as text with newlines as line ends, without a byte order mark.

    Raises:
        InputError: the file contains a zero byte, or is not UTF-8.
    """
    raw = read_bytes(path)
    _refuse_zero_bytes(path, raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        wrong = raw[error.start]
        raise InputError(f"{path}:{line}: not UTF-8 text: got the byte 0x{wrong:02x}") from None
    return text.replace("\r\n", "\n")
