"""Where zoo-gym stores its files: the platform's standard folders, or one folder of your choice.

If `ZOO_GYM_HOME` is set, config, data, cache and log are subfolders of it. Models are stored in the
Hugging Face cache instead.
"""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.errors import InputError, StorageError

APP_NAME = "zoo-gym"
HOME_VARIABLE = "ZOO_GYM_HOME"

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Modes of everything in our folders: other users must not read training data."""

UNWRITABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
)
"""Error numbers for a disk or folder that cannot be written."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for a full disk or an exceeded quota."""


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
        """One folder per device, with the queue of the runs that use it or wait for it."""
        return self.data / "devices"

    @property
    def index(self) -> Path:
        """The SQLite file that indexes the runs; it may be deleted at any time."""
        return self.data / "index.db"


def folders() -> Folders:
    """Returns the current folders; reads the environment at each call.

    Raises:
        InputError: the environment names a file.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        home = given_path(chosen).absolute()
        if home.exists() and not home.is_dir():
            raise InputError(
                f"{HOME_VARIABLE}: expected a folder or nothing, got the file '{home}'",
                hint=f"{HOME_VARIABLE}=FOLDER; without it the platform's own folders are used",
                code="paths.no_folder",
            )
        return Folders(home / "config", home / "data", home / "cache", home / "log")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs(APP_NAME, appauthor=False)
    return Folders(
        dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path, dirs.user_log_path
    )


def given_path(written: str | Path) -> Path:
    """Returns a path as a user wrote it, with `~` expanded; nothing needs to be there.

    Raises:
        InputError: no file can have that path, see `zoo.core.paths`, or it is in the home of an
            unknown user.
    """
    from zoo.core.paths import require_possible

    try:
        path = Path(written).expanduser()
    except RuntimeError:
        raise InputError(
            f"{written}: expected a path, got one in the home of an unknown user",
            code="paths.unknown_home",
        ) from None
    require_possible(path)
    return path


def is_ours(path: Path) -> bool:
    """Returns whether a path is one of this user's four folders or inside one."""
    absolute = path.absolute()
    return any(absolute.is_relative_to(root) for root in _roots())


def make_folder(path: Path) -> None:
    """Creates a folder and its parents; ours are closed to other users.

    Raises:
        OSError: it cannot be created.
    """
    if not is_ours(path):
        path.mkdir(parents=True, exist_ok=True)
        return
    chain = [folder for folder in (path, *path.parents) if is_ours(folder) or not folder.exists()]
    for folder in reversed(chain):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        if is_ours(folder):
            # an earlier version or a loose umask may have left it open to others
            with suppress(OSError):  # another user's folder
                mode = stat.S_IMODE(folder.stat().st_mode)
                if mode & ~PRIVATE_FOLDER:
                    folder.chmod(PRIVATE_FOLDER)


def ensure_folder(path: Path) -> Path:
    """Creates a folder and its parents, as `make_folder` does, and returns it.

    Raises:
        StorageError: it cannot be created, or it exists and cannot be written.
    """
    try:
        make_folder(path)
    except OSError as error:
        raise storage_error(error, path) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise storage_error(PermissionError(errno.EACCES, os.strerror(errno.EACCES)), path)
    return path


def storage_error(error: OSError, path: Path, *, verb: str = "write") -> StorageError:
    """Returns the error for an operation on `path` that the system refused.

    Args:
        error: what the system said.
        path: the file or folder.
        verb: what was done; the hint for all but `read` is about writing.
    """
    reason = (error.strerror or str(error)).lower()
    hint: str | None
    if verb == "read":
        denied = error.errno in {errno.EACCES, errno.EPERM}
        hint = "whoever owns it can let you read it" if denied else None
    elif error.errno in FULL:
        hint = "free some space on that disk"
    else:
        hint = "choose a folder that you may write"
        hint += f": {HOME_VARIABLE}=FOLDER" if is_ours(path) else ""
    return StorageError(f"cannot {verb} '{path}': {reason}", hint=hint, code="paths.storage")


def _roots() -> tuple[Path, ...]:
    used = folders()
    return used.config, used.data, used.cache, used.log
