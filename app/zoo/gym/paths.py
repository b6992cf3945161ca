"""Where zoo-gym keeps its files: the platform's own folders, or one folder of the user's choice.

`ZOO_GYM_HOME` overrides all: then config, data, cache and log are subfolders of it. Models are not
here, they live in the Hugging Face cache.
"""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.errors import StorageError

APP_NAME = "zoo-gym"
HOME_VARIABLE = "ZOO_GYM_HOME"

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Modes of everything in our folders: chats to learn from are nobody else's to read."""

UNWRITABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
)
"""Error numbers that say that a disk or folder cannot be written."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers that say that a disk, or what one may have of it, is full."""


@dataclass(frozen=True)
class Folders:
    """The four folders of this user; none of them needs to exist yet."""

    config: Path
    data: Path
    cache: Path
    log: Path

    @property
    def runs(self) -> Path:
        """One folder per run."""
        return self.data / "runs"

    @property
    def devices(self) -> Path:
        """One folder per device, with the places of the runs that use it or wait for it."""
        return self.data / "devices"

    @property
    def index(self) -> Path:
        """The SQLite file that indexes the runs; it may be deleted at any time."""
        return self.data / "index.db"


def folders() -> Folders:
    """Returns the folders that hold now; the environment is read at each call."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        home = Path(chosen).expanduser().absolute()
        return Folders(home / "config", home / "data", home / "cache", home / "log")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs(APP_NAME, appauthor=False)
    return Folders(
        dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path, dirs.user_log_path
    )


def is_ours(path: Path) -> bool:
    """Says whether a path is in one of this user's four folders, or is one."""
    found = path.absolute()
    return any(found.is_relative_to(root) for root in _roots())


def make_folder(path: Path) -> None:
    """Makes a folder with its parents; those of ours nobody else can enter.

    Raises:
        OSError: it cannot be made.
    """
    if not is_ours(path):
        path.mkdir(parents=True, exist_ok=True)
        return
    chain = [folder for folder in (path, *path.parents) if is_ours(folder) or not folder.exists()]
    for folder in reversed(chain):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        if is_ours(folder):
            _close_to_others(folder)


def _close_to_others(folder: Path) -> None:
    """Closes a folder that an earlier version, or a loose umask, left open."""
    with suppress(OSError):  # somebody else's
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & ~PRIVATE_FOLDER:
            folder.chmod(PRIVATE_FOLDER)


def ensure_folder(path: Path) -> Path:
    """Makes a folder with its parents, as `make_folder` does, and returns it.

    Raises:
        StorageError: it cannot be made, or it is there and cannot be written.
    """
    try:
        make_folder(path)
    except OSError as error:
        raise storage_error(error, path) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise storage_error(PermissionError(errno.EACCES, os.strerror(errno.EACCES)), path)
    return path


def storage_error(error: OSError, path: Path, *, verb: str = "write") -> StorageError:
    """Returns the sentence for what the system refused to do with `path`."""
    reason = (error.strerror or str(error)).lower()
    if error.errno in FULL:
        hint = "free some space on that disk"
    else:
        hint = "choose a folder that you may write"
        hint += f": {HOME_VARIABLE}=FOLDER" if is_ours(path) else ""
    return StorageError(f"cannot {verb} '{path}': {reason}", hint=hint)


def _roots() -> tuple[Path, ...]:
    known = folders()
    return known.config, known.data, known.cache, known.log
