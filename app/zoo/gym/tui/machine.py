"""This machine and the models on it, without a heavy library."""

import os
import platform
import shutil
from pathlib import Path

from zoo.gym.humanize import human_bytes
from zoo.gym.paths import folders
from zoo.models import PICO, Entry, cached_ids, registry
from zoo.models.gguf import imported_names


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
    cached, imported = cached_ids(), imported_names()
    here = {PICO, *cached, *imported}
    listed = [entry for entry in registry() if here & {entry.alias, entry.hub_id}]
    names = {name for entry in listed for name in (entry.alias, entry.hub_id)}
    rows = [(entry.alias, _about(entry)) for entry in listed]
    rows += [(name, "imported from a GGUF file") for name in imported if name not in names]
    return rows + [(name, "in the cache") for name in cached if name not in names]


def missing_models() -> list[Entry]:
    """Returns the listed models that would have to be downloaded first."""
    available = {name for name, _ in available_models()}
    return [entry for entry in registry() if entry.alias not in available]


def offer(entry: Entry) -> str:
    """Returns a model's name, with download size and licence."""
    return f"{entry.alias} ({human_bytes(entry.download_bytes)}, {entry.licence})"


def _about(entry: Entry) -> str:
    where = "imported" if entry.package else "in the cache"
    where = "built in, for tests: it cannot converse" if entry.alias == PICO else where
    return f"{entry.parameters / 1e6:,.1f} M parameters, {where}"


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
