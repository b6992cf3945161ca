"""Who works on a run: a process id together with the time that this process was made.

A pid alone is not enough: the system gives it to another process later.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import psutil

from zoo.gym.files import read_small, write_beside

TOLERANCE_S = 2.0
"""A clock that is set while a worker lives moves the time that the system reports for it."""


@dataclass(frozen=True)
class Identity:
    """One process, for all time.

    Attributes:
        pid: the process id.
        create_time: when the process was made, in Unix seconds.
    """

    pid: int
    create_time: float


def this_process() -> Identity:
    """Returns the identity of the calling process."""
    return Identity(os.getpid(), psutil.Process().create_time())


def write_identity(path: Path, identity: Identity) -> None:
    """Writes `worker.json` at once: a reader sees the old identity or the new one."""
    write_beside(path, json.dumps(asdict(identity)) + "\n")


def read_identity(path: Path) -> Identity | None:
    """Returns the identity in `worker.json`, or None where there is none that can be read."""
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
    """Says whether that very process lives; nothing is ever signalled to find out."""
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
    """Says whether that very process lives, but is stopped from outside: SIGSTOP or a debugger."""
    if identity is None or not is_alive(identity):
        return False
    try:
        status = psutil.Process(identity.pid).status()
    except psutil.Error:
        return False
    return status in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
