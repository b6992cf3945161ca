"""This machine and the models on it, without a heavy library."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.paths import folders

if TYPE_CHECKING:
    from zoo.models import Entry

LOW_BATTERY = 20
"""The charge, in percent, below which a machine without power is a warning."""


@dataclass(frozen=True)
class Machine:
    """What matters to a training on this machine; sizes in bytes, charge in percent."""

    system: str
    cores: int
    memory: int
    memory_free: int
    disk: int
    disk_free: int
    charge: float | None = None
    plugged: bool = True


def this_machine() -> Machine:
    """Reads the figures of this moment."""
    import psutil

    memory, disk = psutil.virtual_memory(), shutil.disk_usage(_existing(folders().data))
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    system = {"Darwin": "Mac"}.get(platform.system(), platform.system())
    return Machine(
        system=f"{system} {platform.machine()}",
        cores=os.cpu_count() or 1,
        memory=memory.total,
        memory_free=memory.available,
        disk=disk.total,
        disk_free=disk.free,
        charge=None if battery is None else battery.percent,
        plugged=battery is None or battery.power_plugged is not False,
    )


def available_models() -> list[tuple[str, str]]:
    """Returns name and description of each model that is on this machine."""
    from zoo.models import PICO, cached_ids, registry  # the first frame does not wait for it
    from zoo.models.gguf import imported_names

    cached, imported = cached_ids(), imported_names()
    here = {PICO, *cached, *imported}
    listed = [entry for entry in registry() if here & {entry.alias, entry.hub_id}]
    names = {name for entry in listed for name in (entry.alias, entry.hub_id)}
    rows = [(entry.alias, _about(entry)) for entry in listed]
    rows += [(name, "imported from a GGUF file") for name in imported if name not in names]
    return rows + [(name, "in the cache") for name in cached if name not in names]


def missing_models() -> "list[Entry]":
    """Returns the listed models that would have to be downloaded first."""
    from zoo.models import registry

    available = {name for name, _ in available_models()}
    return [entry for entry in registry() if entry.alias not in available]


def _about(entry: "Entry") -> str:
    from zoo.models import PICO

    where = "imported" if entry.package else "in the cache"
    where = "for tests" if entry.alias == PICO else where
    return f"{entry.parameters / 1e6:,.1f} M parameters, {where}"


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
