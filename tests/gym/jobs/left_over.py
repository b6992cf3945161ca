"""Workers that a test started and did not see to their end."""

import os
from contextlib import suppress

import psutil

from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.run import run_folders
from zoo.gym.processes import is_alive


def kill_workers() -> None:
    """Kills the workers of all runs of this home."""
    for run in run_folders():
        identity = read_identity(run.identity_file)
        if identity is not None and identity.pid != os.getpid() and is_alive(identity):
            with suppress(psutil.NoSuchProcess):  # it may end by itself at this moment
                psutil.Process(identity.pid).kill()
