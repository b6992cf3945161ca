"""Free disk space where zoo-gym writes, by role, without paths."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.paths import folders
from zoo.models import cache_folder


@dataclass(frozen=True)
class Place:
    """A folder by its role, and the free bytes of its disk; None if unknown."""

    role: str
    free_bytes: int | None


def places() -> tuple[Place, ...]:
    """Returns the places for runs and deltas, and for models."""
    named = (("state folder", folders().data), ("model cache", cache_folder()))
    return tuple(Place(role, free_bytes(path)) for role, path in named)


def free_bytes(path: Path) -> int | None:
    """Returns the free bytes of the disk that a folder is on, or would be on."""
    path = path.absolute()
    try:
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
        return shutil.disk_usage(existing).free
    except OSError:
        return None
