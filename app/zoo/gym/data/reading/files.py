"""Checks and reads a data file: refuses anything but text, and reports what it is instead."""

import os
import stat
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError

BOM = b"\xef\xbb\xbf"
_HEAD_BYTES = 8192
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_LFS = b"version https://git-lfs"
_NOT_READ = frozenset({".csv", ".tsv", ".parquet", ".arrow", ".xlsx", ".gz", ".zip", ".zst"})
_OF_THIS_PROCESS = ("/dev/stdin", "/dev/fd/", "/proc/")
_READ = "json, jsonl or plain text"


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
    if path.suffix.lower() in _NOT_READ:
        raise InputError(f"{path}: expected {_READ}, got {path.suffix.lower()[1:]}")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except PermissionError:
        raise NotAvailableError(f"{path}: no permission to read the file") from None
    _refuse_other_than_text(path, head)
    return head.removeprefix(BOM)


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
    raw = path.read_bytes()
    _refuse_zero_bytes(path, raw)
    raw = raw.removeprefix(BOM)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        wrong = raw[error.start]
        raise InputError(f"{path}:{line}: not UTF-8 text: got the byte 0x{wrong:02x}") from None
    return text.replace("\r\n", "\n")
