"""This machine and the models on it, without a heavy library."""

import os
import platform
import shutil
from pathlib import Path

from zoo.gym.humanize import human_bytes
from zoo.gym.paths import folders
from zoo.models import PICO, cached_ids, registry


def machine_line() -> str:
    """Returns system, cores, memory and free disk in one line."""
    import psutil

    memory = psutil.virtual_memory()
    disk = shutil.disk_usage(_existing(folders().data)).free
    system = {"Darwin": "Mac"}.get(platform.system(), platform.system())
    cores = os.cpu_count() or 1
    return (
        f"{system} {platform.machine()}, {cores} {'core' if cores == 1 else 'cores'}, "
        f"{human_bytes(memory.available)} of {human_bytes(memory.total)} memory free, "
        f"{human_bytes(disk)} of disk space free"
    )


def available_models() -> list[tuple[str, str]]:
    """Returns name and description of each model that is on this machine."""
    cached = cached_ids()
    family = [entry for entry in registry() if entry.alias == PICO or entry.hub_id in cached]
    known = {entry.hub_id for entry in family}
    rows = [(entry.alias, _about(entry.alias, entry.parameters)) for entry in family]
    return rows + [(name, "in the cache") for name in cached if name not in known]


def missing_models() -> list[str]:
    """Returns the names of the family's models that would have to be downloaded first."""
    available = {name for name, _ in available_models()}
    return [entry.alias for entry in registry() if entry.alias not in available]


def _about(alias: str, parameters: int) -> str:
    where = "built in, for trying things out" if alias == PICO else "in the cache"
    return f"{parameters / 1e6:,.1f} M parameters, {where}"


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())
