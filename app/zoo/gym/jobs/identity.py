"""Identifies the process that works on a run by its process id and creation time.

A pid alone is not enough: the operating system reuses it later.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import psutil

from zoo.gym.files import read_small, write_beside

TOLERANCE_S = 2.0
"""Setting the clock while a worker runs shifts the creation time that the system reports."""


@dataclass(frozen=True)
class Identity:
    """One process, never confused with a later one.

    Attributes:
        pid: the process id.
        create_time: when the process was created, in Unix seconds.
    """

    pid: int
    create_time: float


def this_process() -> Identity:
    """Returns the identity of the calling process."""
    return Identity(os.getpid(), psutil.Process().create_time())


def write_identity(path: Path, identity: Identity) -> None:
    """Writes `worker.json` atomically: a reader sees the old identity or the new one."""
    write_beside(path, json.dumps(asdict(identity)) + "\n")


def read_identity(path: Path) -> Identity | None:
    """Returns the identity in `worker.json`, or None if it is missing or cannot be read."""
    try:
        found: object = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, object]", found)
    pid, create_time = fields.get("pid"), fields.get("create_time")
    if type(pid) is not int or not isinstance(create_time, int | float):
        return None
    return Identity(pid, float(create_time)) if 0 <= create_time < 2**63 else None


def is_alive(identity: Identity | None) -> bool:
    """Returns whether exactly this process is alive; sends it no signal."""
    if identity is None or identity.pid < 1:
        return False
    try:
        process = psutil.Process(identity.pid)
        if abs(process.create_time() - identity.create_time) > TOLERANCE_S:
            return False
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.AccessDenied:
        return True
    except (psutil.NoSuchProcess, OverflowError):
        return False


def is_halted(identity: Identity | None) -> bool:
    """Returns whether exactly this process is alive but suspended: by SIGSTOP or a debugger."""
    if identity is None or not is_alive(identity):
        return False
    try:
        status = psutil.Process(identity.pid).status()
    except psutil.Error:
        return False
    return status in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
