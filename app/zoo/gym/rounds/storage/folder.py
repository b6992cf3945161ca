"""A folder as storage: on this machine, a network share, or a USB stick."""

from contextlib import suppress
from pathlib import Path

from zoo.gym.errors import StorageError
from zoo.gym.files import new_file, read_errors, read_small, storage_errors
from zoo.gym.rounds.storage.base import MOST_BYTES, check_name


class FolderStorage:
    """The files of a round in a folder; each is written beside, synced and renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a file, None where there is none."""
        path = self._path(name)
        with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
            return read_small(path, most_bytes=MOST_BYTES)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a new file; the same bytes again are accepted."""
        if self.size(name) is None:
            self.replace(name, content)
        elif self.read(name) != content:
            raise StorageError(
                f"{self._path(name)}: expected nothing or the same bytes, got others"
            )

    def replace(self, name: str, content: bytes) -> None:
        """Replaces a file."""
        path = self._path(name)
        if len(content) > MOST_BYTES:
            raise StorageError(f"{path}: expected at most {MOST_BYTES} bytes, got {len(content)}")
        self._refuse_outside(path.parent)
        with new_file(path) as beside, storage_errors(path):
            beside.write_bytes(content)

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of a file, None where there is none."""
        path = self._path(name)
        with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
            return path.stat().st_size
        return None

    def names(self, prefix: str) -> list[str]:
        """Returns the names of the files below a folder of it, sorted."""
        top = self._path(prefix)
        with read_errors(top):
            found = [path for path in top.rglob("*") if path.is_file()]
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in found
            if not path.name.startswith(".")  # unfinished
        )

    def _refuse_outside(self, folder: Path) -> None:
        """Refuses to write where a link leads out of the round: others may write in its folder."""
        with read_errors(folder):
            found = folder.resolve()
            if found.is_relative_to(self.folder.resolve()):
                return
        raise StorageError(
            f"{folder}: expected a folder of the round, got a link to {found}",
            hint="remove the link: a round is written in one folder",
        )

    def _path(self, name: str) -> Path:
        return self.folder / check_name(name)
