"""Starts a worker that outlives the process that started it.

The worker runs in its own session, reads nothing and prints to `worker.log`; it never gets a pipe,
which would block it as soon as nobody reads from the other end.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoo.gym.errors import GymError, InputError
from zoo.gym.files import private, read_json_object
from zoo.gym.files.lock import locked
from zoo.gym.jobs.events import log_end, tail_events
from zoo.gym.jobs.identity import read_identity, write_identity
from zoo.gym.jobs.power.keep_awake import keep_awake
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import Status, read_status
from zoo.gym.paths import storage_error
from zoo.gym.processes import is_alive, this_process

FIRST_EVENT_S = 60.0
"""How long a worker may take until its first event: Python loads slowly from a cold disk."""

_POLL_S = 0.02
_LOCK_S = 2.0
_TAIL_LINES = 12
_TAIL_BYTES = 8192


ALLOCATOR = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
"""Settings of glibc's allocator in a worker: freed blocks are coalesced at once.

Aligned blocks, such as tensors, leave small remainders. If these are cached for small objects, they
fragment the free memory, and a training step of zen-nano at 2,048 tokens takes twice the memory.
"""


def launch(
    run: Run,
    *,
    prepare: Callable[[], object] | None = None,
    wait_s: float = FIRST_EVENT_S,
    entry: str | None = None,
) -> int:
    """Starts the worker of a queued, failed or interrupted run and returns its process id.

    Args:
        run: the run; a resumed one continues in the same folder.
        prepare: called once no other start can interfere; if it raises, the run is unchanged.
        wait_s: how long to wait for the worker's first event.
        entry: "module:function" that does the work in place of that of its kind, for tests.

    Raises:
        GymError: the run has a worker or is done, or the worker exited or hung before its first
            event; then the message ends with the tail of its log and the run is marked failed.
        StorageError: the run folder cannot be written.

    Warns:
        GymWarning: this Mac may sleep during the run.
    """
    try:
        _claim(run, prepare)
        offset, log_bytes = log_end(run.events.path), _size_bytes(run.worker_log)
        process = _spawn(run, entry)
    except OSError as error:
        raise storage_error(error, run.folder) from error
    got = _await_first_event(process, run.events.path, offset, wait_s)
    if got is not None:
        raise _not_started(run, got, log_bytes)
    # collects the exit code: no zombie if this process keeps running
    threading.Thread(target=process.wait, daemon=True).start()
    identity = read_identity(run.identity_file)
    pid = process.pid if identity is None else identity.pid
    keep_awake(pid)
    return pid


def _claim(run: Run, prepare: Callable[[], object] | None) -> None:
    """Claims the run for this process, so that two starts cannot race."""
    _check_startable(run)
    with locked(run.lock_file, wait_s=_LOCK_S) as held:
        if not held:
            raise _has_worker(run)
        status = _check_startable(run)
        if prepare is not None:
            prepare()
        write_identity(run.identity_file, this_process())
        if status.state != "queued":
            run.events.emit("state", state="queued")


def _check_startable(run: Run) -> Status:
    status = read_status(run)
    if status.state == "done":
        raise InputError(
            f"run '{run.id}' is done: expected one that can be resumed", code="jobs.done"
        )
    identity = read_identity(run.identity_file)
    ours = identity is not None and identity.pid == os.getpid()
    if status.live and not ours and is_alive(identity):
        raise _has_worker(run)
    return status


def _has_worker(run: Run) -> InputError:
    return InputError(
        f"run '{run.id}' has a worker already: expected one without", code="jobs.has_worker"
    )


def _spawn(run: Run, entry: str | None) -> "subprocess.Popen[bytes]":
    # -P keeps the user's folder out of the module path: a torch.py there must not be imported
    argv = [sys.executable, "-P", "-X", "faulthandler", "-m", "zoo.gym.jobs.worker"]
    argv += [str(run.folder.absolute()), *(["--entry", entry] if entry else [])]
    env = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    if sys.platform == "linux":
        env["GLIBC_TUNABLES"] = ":".join(filter(None, [env.get("GLIBC_TUNABLES"), ALLOCATOR]))
    if sys.platform == "darwin":
        # otherwise Metal's watchdog kills long kernels while the display is on
        env["AGX_RELAX_CDM_CTXSTORE_TIMEOUT"] = "1"
    *preferred, last = _ways_to_detach()
    with open(run.worker_log, "ab", opener=private) as log:
        files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        files |= {"env": env, "cwd": working_folder(run)}
        for way in preferred:
            with suppress(PermissionError):
                return subprocess.Popen[bytes](argv, **files, **way)
        return subprocess.Popen[bytes](argv, **files, **last)


def _ways_to_detach() -> list[dict[str, Any]]:
    if sys.platform == "win32":
        apart = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        # a job object may forbid its processes to break away
        breakaway = apart | subprocess.CREATE_BREAKAWAY_FROM_JOB
        return [{"creationflags": breakaway}, {"creationflags": apart}]
    return [{"start_new_session": True}]


def working_folder(run: Run) -> Path:
    """Returns the folder the run was created in: paths in its settings may be relative to it."""
    cwd = (read_json_object(run.env_file) or {}).get("cwd")
    return Path(cwd) if isinstance(cwd, str) and Path(cwd).is_dir() else Path.cwd()


def _await_first_event(
    process: "subprocess.Popen[bytes]", events: Path, offset: int, wait_s: float
) -> str | None:
    """Returns None as soon as there is an event, otherwise what happened instead."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        ended = process.poll()
        if tail_events(events, offset)[0]:
            return None
        if ended is not None:
            return f"exit code {ended}"
        time.sleep(_POLL_S)
    process.kill()
    process.wait()
    return f"none within {wait_s:g} s"


def _not_started(run: Run, got: str, log_bytes: int) -> GymError:
    """Marks a run failed whose worker never emitted an event, and returns the error to raise."""
    message = f"run '{run.id}' did not start: expected a first event, got {got}"
    hint = f"the worker's output is in '{run.worker_log}'"
    with locked(run.lock_file, wait_s=_LOCK_S) as held:
        if held:
            fields = {"message": message, "hint": hint, "code": "jobs.not_started"}
            run.events.emit("end", state="failed", exit_code=1, **fields)
    log = run.worker_log
    with log.open("rb") as file:
        file.seek(max(log_bytes, _size_bytes(log) - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    tail = "\n".join(lines[-_TAIL_LINES:])
    return GymError(f"{message}\n{tail}" if tail else message, hint=hint, code="jobs.not_started")


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
