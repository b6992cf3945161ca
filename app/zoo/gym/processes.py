"""Identifies processes by id and creation time, and checks whether one is still running.

An id alone is not enough: the operating system reuses it later.
"""

import os
from dataclasses import dataclass

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
    import psutil

    return Identity(os.getpid(), psutil.Process().create_time())


def is_alive(identity: Identity | None) -> bool:
    """Returns whether exactly this process is alive; sends it no signal."""
    import psutil

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
    import psutil

    if identity is None or not is_alive(identity):
        return False
    try:
        status = psutil.Process(identity.pid).status()
    except psutil.Error:
        return False
    return status in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
