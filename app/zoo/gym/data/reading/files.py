"""Finds, checks, opens and reads data files; refuses other formats, and reports what they are.

Files may be compressed with gzip: their first bytes decide, whatever the name. A damaged or
incomplete file is refused: the rows before the damage are no sample that anyone chose.
"""

import gzip
import os
import re
import stat
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple, cast

from zoo.gym.data.reading.parquet import MAGIC, check_parquet
from zoo.gym.data.reading.parquet import SUFFIX as PARQUET
from zoo.gym.errors import InputError, NotAvailableError

BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"
COMPRESSED = ".gz"

MOST_ROW_BYTES = 1 << 28
"""The longest line that is read: a small compressed file may expand to a line without an end."""

_HEAD_BYTES = 8192
_LFS = b"version https://git-lfs"
_NOT_READ = frozenset({".arrow", ".bz2", ".tar", ".tgz", ".xlsx", ".xz", ".zip", ".zst"})
_READ = "json, jsonl, csv, tsv, parquet or plain text"
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", PARQUET})
_TEST = re.compile(r"(?<![^\W_])test(?![^\W_])", re.IGNORECASE)
_VALIDATION = re.compile(
    r"(?<![^\W_])(valid|validation|val|dev|eval|evaluation)(?![^\W_])", re.IGNORECASE
)
_METADATA = re.compile(
    r"dataset_infos?\.json|metadata\.json|state\.json|(licen[cs]e|readme|notice)\.txt",
    re.IGNORECASE,
)
"""Files that libraries and people put beside the data, and that describe it."""

_OF_EXPORTS = re.compile(
    r"(users?|user_settings|message_feedback|model_comparisons|shared_conversations|projects"
    r"|memories|group_chats|sora|shopping)\.json"
)
"""Files beside the `conversations.json` in an export of ChatGPT or Claude."""


class DataFiles(NamedTuple):
    """Data files by purpose.

    Attributes:
        train: to learn from.
        validation: of folders; their names say that they are held out.
        test: of folders; their names say that they are neither learned nor evaluated on.
    """

    train: tuple[Path, ...] = ()
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()

    @property
    def used(self) -> tuple[Path, ...]:
        """Those to learn from, then those that are held out."""
        return self.train + self.validation


def data_files(paths: Sequence[Path]) -> DataFiles:
    """Returns the data files: the given files, and all files in the given folders, by name.

    Hidden files, files about the data and those with other suffixes, such as code, are no data. A
    compressed file without a suffix of its format is; its content says which. A file that is given
    itself is one to learn from, whatever its name.

    Raises:
        InputError: a folder has no data files to learn from, or also data in a format that is not
            read, or a link that is not followed.
    """
    files = _by_purpose(paths)
    if paths and not files.train:
        names = ", ".join(map(str, (*files.validation, *files.test)))
        raise InputError(
            f"expected files to learn from, got only {names}",
            hint="a file that is given by its own name is learned, whatever that is",
            code="data.no_training_files",
        )
    return files


def _by_purpose(paths: Sequence[Path]) -> DataFiles:
    parts = [_of_folder(path) if path.is_dir() else DataFiles((path,)) for path in paths]
    return DataFiles(*(tuple(chain(*files)) for files in zip(*parts, strict=True)))


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Returns the data files where all are for one purpose, as examples to measure on are.

    Raises:
        InputError: see `data_files`, or their names say several purposes.
    """
    purposes = [files for files in _by_purpose(paths) if files]
    if len(purposes) > 1:
        raise InputError(
            f"expected files for one purpose, got {purposes[0][0]} and {purposes[1][0]}",
            hint="give the files one by one, not their folder",
            code="data.mixed_purposes",
        )
    return list(chain(*purposes))


def _of_folder(folder: Path) -> DataFiles:
    names = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    names = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    exported = {name.parent for name in names if name.name == "conversations.json"}
    names = [
        name for name in names if not (name.parent in exported and _OF_EXPORTS.fullmatch(name.name))
    ]
    for name in names:
        _refuse_in_folder(folder / name)
    data = [name for name in names if _is_data(name) and (folder / name).is_file()]
    if not data:
        suffixes = ", ".join(sorted(_SUFFIXES))
        raise InputError(
            f"{folder}: expected files of examples ({suffixes}), got none", code="data.no_files"
        )
    test = [name for name in data if _TEST.search(str(name))]
    validation = [name for name in data if name not in test and _VALIDATION.search(str(name))]
    train = [name for name in data if name not in test and name not in validation]
    files = (tuple(folder / name for name in names) for names in (train, validation, test))
    return DataFiles(*files)


def _is_data(name: Path) -> bool:
    by_content = name.suffix.lower() == COMPRESSED and not data_suffix(name)
    return (by_content or data_suffix(name) in _SUFFIXES) and not _METADATA.fullmatch(name.name)


def _refuse_in_folder(path: Path) -> None:
    """Refuses what may be data and would be passed over."""
    if path.is_symlink() and not path.exists():
        raise InputError(
            f"{path}: expected a file, got a link to nothing",
            hint="remove the link",
            code="data.broken_link",
        )
    if path.is_symlink() and path.is_dir():
        raise InputError(
            f"{path}: expected a folder of its own, got a link, which is not followed",
            hint="name the folder that it leads to beside this one",
            code="data.linked_folder",
        )
    if data_suffix(path) in _NOT_READ and path.is_file():
        raise InputError(
            f"{path}: expected {_READ}, got {data_suffix(path)[1:]}",
            hint="convert it, move it away, or give the files to learn from one by one",
            code="data.other_format",
        )


def check_file(path: Path) -> bytes:
    """Returns the first bytes of a data file, without a byte order mark.

    Raises:
        NotAvailableError: there is no such file, or no permission to read it.
        InputError: it is a folder, a pipe, empty, not text, or in an unsupported format.
    """
    if not path.exists():
        raise NotAvailableError(f"{path}: no such file", code="data.missing_file")
    if path.is_dir():
        raise InputError(
            f"{path}: expected a file, got a folder",
            hint="give the files in it",
            code="data.folder",
        )
    _refuse_streams(path)
    if data_suffix(path) in _NOT_READ:
        got = data_suffix(path)[1:]
        raise InputError(f"{path}: expected {_READ}, got {got}", code="data.other_format")
    try:
        head = read_head(path, _HEAD_BYTES)
    except PermissionError:
        raise NotAvailableError(
            f"{path}: no permission to read the file", code="data.no_permission"
        ) from None
    if is_parquet(path, head):
        check_parquet(path)
        return head
    if not head.removeprefix(BOM).strip():
        raise InputError(
            f"{path}: empty file: expected rows of data, got none", code="data.empty_file"
        )
    if head.startswith(_LFS):
        raise InputError(
            f"{path}: expected {_READ}, got a Git LFS pointer",
            hint="download it with: git lfs pull",
            code="data.lfs_pointer",
        )
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            f"{path}: expected UTF-8 text, got UTF-16",
            hint="save it as UTF-8",
            code="data.bad_encoding",
        )
    _refuse_zero_bytes(path, head)
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
    absolute = os.path.abspath(path)  # noqa: PTH100  keeps the links
    if stat.S_ISREG(mode) and not absolute.startswith(("/dev/stdin", "/dev/fd/", "/proc/")):
        return
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device"}
    got = kinds.get(stat.S_IFMT(mode), "a stream of this process")
    raise InputError(
        f"{path}: expected a file on disk, got {got}",
        hint="save its contents to a file first: data is read more than once",
        code="data.stream",
    )


def _refuse_zero_bytes(path: Path, raw: bytes) -> None:
    at = raw.find(b"\0")
    if at >= 0:
        raise InputError(
            f"{path}: not text: expected {_READ}, got a zero byte at offset {at}",
            code="data.zero_byte",
        )


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
        raise InputError(
            f"{path}:{line}: not UTF-8 text: got the byte 0x{raw[error.start]:02x}",
            code="data.bad_encoding",
        ) from None
    return text.replace("\r\n", "\n")


def data_suffix(path: Path) -> str:
    """Returns the suffix that names the format, without that of the compression: `.jsonl`."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == COMPRESSED else suffix


def open_data(path: Path) -> IO[bytes]:
    """Opens a data file to read its bytes, decompressed."""
    with path.open("rb") as file:
        compressed = file.read(len(GZIP)) == GZIP
    return cast("IO[bytes]", gzip.open(path)) if compressed else path.open("rb")


@contextmanager
def damage_refused(where: str) -> Generator[None]:
    """Turns errors of decompression into a refusal.

    Args:
        where: the file, and the line if it is known.

    Raises:
        InputError: the file is damaged or incomplete.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = str(error)
        problem = f"damaged gzip file: {reason[:1].lower()}{reason[1:]}"
        if isinstance(error, EOFError):
            problem = "incomplete gzip file: expected more data, got the end of the file"
        raise InputError(
            f"{where}: {problem}", hint="copy or download the file again", code="data.damaged_file"
        ) from None


def read_head(path: Path, count: int) -> bytes:
    """Returns the first bytes of a data file, at most `count`; -1 reads the whole file.

    Raises:
        InputError: the file is damaged.
    """
    with open_data(path) as file, damage_refused(str(path)):
        return file.read(count)


def read_bytes(path: Path) -> bytes:
    """Returns a whole data file, without a byte order mark.

    Raises:
        InputError: the file is damaged.
    """
    return read_head(path, -1).removeprefix(BOM)


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a data file with their numbers from 1, without a byte order mark.

    Raises:
        InputError: the file is damaged, or a line is too long to be a row.
    """
    with open_data(path) as file:
        number = 0
        while True:
            number += 1
            with damage_refused(f"{path}:{number}"):
                line = file.readline(MOST_ROW_BYTES)
            if not line:
                return
            if len(line) == MOST_ROW_BYTES:
                raise InputError(
                    f"{path}:{number}: expected a line of less than {MOST_ROW_BYTES >> 20} MiB, "
                    "got a longer one",
                    code="data.long_line",
                )
            yield number, line.removeprefix(BOM) if number == 1 else line
