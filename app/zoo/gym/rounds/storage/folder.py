"""A folder as storage (on this machine, a network share, or a USB stick), and any by address."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from zoo.gym.errors import StorageError
from zoo.gym.files import new_file, read_errors, read_small, storage_errors
from zoo.gym.rounds.storage.base import (
    MOST_BYTES,
    NoFileError,
    Storage,
    check_name,
    check_size,
    is_address,
)
from zoo.gym.rounds.storage.http import HttpStorage

_NOWHERE = {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
"""What a system says of a link that leads nowhere; Windows has the last."""


class FolderStorage:
    """The files of a round in a folder; each is written beside, synced and renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a file, None where there is none."""
        path = self._path(name)
        try:
            with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                return read_small(path, most_bytes=MOST_BYTES)
        except StorageError as error:
            if self._is_no_file(path, error.__cause__):
                raise NoFileError(error.message, hint=error.hint, code="rounds.no_file") from None
            raise
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a new file; the same bytes again are accepted."""
        if self.size(name) is None:
            self.replace(name, content)
        elif self.read(name) != content:
            raise StorageError(
                f"{self._path(name)}: expected nothing or the same bytes, got others",
                code="rounds.name_taken",
            )

    def replace(self, name: str, content: bytes) -> None:
        """Replaces a file."""
        path = self._path(name)
        check_size(path, content)
        self._refuse_outside(path.parent)
        _make_room(path)
        with new_file(path) as beside, storage_errors(path):
            beside.write_bytes(content)

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of a file, None where there is none."""
        path = self._path(name)
        with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
            try:
                status = path.stat()
            except OSError as error:
                if self._is_no_file(path, error):
                    return None
                raise
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None

    def names(self, prefix: str) -> list[str]:
        """Returns the names of the files below a folder of it, sorted."""
        top = self._path(prefix)
        with read_errors(top):
            files = [path for path in top.rglob("*") if path.is_file()]
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in files
            if not path.name.startswith(".")  # unfinished
        )

    def _refuse_outside(self, folder: Path) -> None:
        """Refuses to write where a link leads out of the round: others may write in its folder."""
        with read_errors(folder):
            target = Path(os.path.realpath(folder))  # unlike `resolve`, takes loops of links
            if target.is_relative_to(os.path.realpath(self.folder)):
                return
        raise StorageError(
            f"{folder}: expected a folder of the round, got a link to {target}",
            hint="remove the link: a round is written in one folder",
            code="rounds.outside_link",
        )

    def _is_no_file(self, path: Path, error: BaseException | None) -> bool:
        """Says whether a file cannot be read for what somebody put there, not for the storage."""
        if not isinstance(error, OSError):
            return False
        if error.errno == errno.EFBIG:
            return True
        try:
            return not stat.S_ISREG(path.stat().st_mode)
        except OSError as fault:
            inside = [path, *path.parents][: len(path.relative_to(self.folder).parts)]
            return fault.errno in _NOWHERE and any(map(os.path.islink, inside))

    def _path(self, name: str) -> Path:
        return self.folder / check_name(name)


def _make_room(path: Path) -> None:
    """Removes a pipe, a link that leads to no file or the like in place of a file of the round."""
    with storage_errors(path), suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            raise StorageError(
                f"{path}: expected a file of the round or nothing, got a folder",
                hint=f"remove the folder, or ask the round's maker to: {path}",
                code="rounds.is_folder",
            )
        if not os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` raises for some links
            path.unlink()


def open_storage(address: str) -> Storage:
    """Returns the storage at an address; nothing is read yet.

    Args:
        address: a folder, `https://HOST/rounds/NAME`, or `s3://BUCKET/PREFIX`.

    Raises:
        NotAvailableError: the extra that it needs is not installed.
        InputError: it is of another kind, or has a password in it.
    """
    if not is_address(address):
        return FolderStorage(Path(address))
    if address.startswith("s3://"):
        from zoo.gym.rounds.storage.s3 import S3Storage

        return S3Storage(address)
    return HttpStorage(address)
