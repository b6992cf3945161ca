"""Starts a process apart from ours, and kills it together with the processes it started."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoo.gym.errors import DoesNotFitError


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stderr: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Starts a program in a process group of its own, with pipes for stdin and stdout.

    Args:
        argv: the program and its arguments.
        env: its environment; None: ours.
        cwd: its folder; None: ours.
        stderr: where its errors go; None: to our stderr.

    Raises:
        DoesNotFitError: the system cannot start a process.
    """
    apart: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    try:
        return subprocess.Popen[bytes](
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=env,
            cwd=cwd,
            **apart,
        )
    except OSError as error:
        raise DoesNotFitError(
            f"a process for rewards cannot be started: {error.strerror}", code="rewards.no_process"
        ) from error


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kills a process of `start` with all processes in its group, and closes its pipes."""
    if sys.platform == "win32":
        _kill_tree(process.pid)
    else:
        # the group outlives its leader; a reaped leader's id is not reused while members are left
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # unread bytes
                pipe.close()


def _kill_tree(pid: int) -> None:
    import psutil

    with suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
