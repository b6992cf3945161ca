"""Starts the other processes of a run on this machine, and ends them with it.

Each is `python -m zoo.gym.jobs.crew.peer`. They end when the first process does, however it ends;
if one of them ends early, the exchange with it fails in the first, and the run is interrupted.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import EXIT_CODES, GymError, InterruptedRunError, exit_code
from zoo.gym.files import private, read_json_object, remove_file, write_beside
from zoo.gym.jobs.crew.failure import log_failure
from zoo.gym.jobs.run import Run
from zoo.gym.processes import this_process
from zoo.gym.train.parallel.crew import Crew
from zoo.gym.train.run_folder.checkpoint import WRITING

if TYPE_CHECKING:
    from zoo.backends.ranks import Place

Peers = Sequence["subprocess.Popen[bytes]"]

MEETING_FILE = "processes.meet"
"""In a run folder, while its processes connect: their addresses on this machine."""

GRACE_S = 10.0
"""How long other processes may take to end after the first has left them."""

_POLL_S, _WATCH_S = 0.05, 0.5


def first_of(run: Run, *, own_process: bool = False) -> Crew:
    """Returns the processes of a run as the first of them sees it.

    Args:
        run: the run.
        own_process: True if the process does nothing else, so that it may be ended.
    """
    ending: list[Callable[[], object]] = []
    return Crew(start=partial(started, run, ending if own_process else None), ending=ending)


@contextmanager
def started(
    run: Run, ending: "Sequence[Callable[[], object]] | None", size: int
) -> "Generator[Place]":
    """Starts the other processes of a run for the duration of a `with` block.

    Args:
        run: the run.
        ending: what to call before this process is ended, if another one has ended and this one
            does not notice; None never ends it.
        size: the number of processes, this one included.

    Raises:
        InterruptedRunError: one of them was killed.
        GymError: one of them failed; the class is that of its own error.
    """
    from zoo.backends.ranks import LostProcessError, Place

    meeting = run.folder / MEETING_FILE
    _clear(run, size)
    peers = [_start(run, rank, size) for rank in range(1, size)]
    left = threading.Event()
    try:
        _await_ready(run, peers)
        if ending is not None:
            threading.Thread(target=watch, args=(run, peers, left, ending), daemon=True).start()
        yield Place(0, size, 0, str(meeting))
    except LostProcessError as error:
        left.set()
        raise _why(run, peers) or error from error
    finally:
        left.set()
        _end(peers)
        _clear(run, size)


def ready_file(run: Run, rank: int) -> Path:
    """Returns the file that says that a process has read the run and can be connected."""
    return run.folder / f"process-{rank + 1}.ready"


def error_file(run: Run, rank: int) -> Path:
    """Returns the file in which a process says why it failed."""
    return run.folder / f"process-{rank + 1}.json"


def report_error(run: Run, rank: int, error: GymError) -> None:
    """Writes why this process failed, for the first one."""
    text = {"code": exit_code(error), "message": error.message, "hint": error.hint}
    write_beside(error_file(run, rank), json.dumps(text) + "\n")


def _clear(run: Run, size: int) -> None:
    for rank in range(1, size):
        remove_file(ready_file(run, rank))
        remove_file(error_file(run, rank))
    remove_file(run.folder / MEETING_FILE)


def _start(run: Run, rank: int, size: int) -> "subprocess.Popen[bytes]":
    me = this_process()
    argv = [sys.executable, "-P", "-X", "faulthandler", "-m", "zoo.gym.jobs.crew.peer"]
    argv += [str(run.folder.absolute()), str(rank), str(size), str(me.pid), repr(me.create_time)]
    with open(run.worker_log, "ab", opener=private) as log:
        return subprocess.Popen[bytes](argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _await_ready(run: Run, peers: Peers) -> None:
    """Waits until every process can be connected: connecting waits for them without end."""
    waiting = dict(enumerate(peers, 1))
    while waiting:
        if (request := run.control.pending()) in {"stop", "park"}:
            raise InterruptedRunError(
                f"{request} requested before the first step", code="jobs.stopped"
            )
        for rank, peer in list(waiting.items()):
            if ready_file(run, rank).exists():
                del waiting[rank]
            elif peer.poll() is not None:
                raise _ended(run, rank, peer, len(peers) + 1)
        time.sleep(_POLL_S)


def watch(
    run: Run,
    peers: Peers,
    left: threading.Event,
    ending: Sequence[Callable[[], object]] = (),
) -> None:
    """Ends this process if another one fails and the exchange with it waits on, as NCCL's may.

    A checkpoint that is being written is completed first.

    Args:
        run: the run, whose end is logged.
        peers: the other processes, which end, too.
        left: set as soon as this process no longer waits for them.
        ending: what to call before.
    """
    while not left.wait(_WATCH_S):
        for rank, peer in enumerate(peers, 1):
            if peer.poll() and not left.wait(GRACE_S):
                with WRITING:
                    error = _ended(run, rank, peer, len(peers) + 1)
                    for end in ending:
                        end()
                    _end(peers, grace_s=0)
                    _clear(run, len(peers) + 1)
                    log_failure(run, error)
                    os._exit(exit_code(error))


def _why(run: Run, peers: Peers) -> GymError | None:
    """Returns why the connection was lost: what the first process to end says of it, if any."""
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        codes = [peer.poll() for peer in peers]  # once: one may end between two looks
        for rank, code in enumerate(codes, 1):
            # those that only lost the connection, too, say so with this exit code
            if code not in {None, 0, EXIT_CODES[InterruptedRunError]}:
                return _ended(run, rank, peers[rank - 1], len(peers) + 1)
        if None not in codes:
            return None
        time.sleep(_POLL_S)
    return None


def _ended(run: Run, rank: int, peer: "subprocess.Popen[bytes]", size: int) -> GymError:
    who, code = f"process {rank + 1} of {size}", peer.returncode
    fields = read_json_object(error_file(run, rank))
    if fields is not None:
        kinds = {number: kind for kind, number in EXIT_CODES.items() if number != 1}
        hint = fields.get("hint")
        return kinds.get(code, GymError)(
            f"{who}: {fields.get('message')}", hint=hint if isinstance(hint, str) else None
        )
    if code is not None and code < 0:
        return InterruptedRunError(
            f"{who} was killed by signal {-code}",
            hint=f"resume it: zoo-gym runs resume {run.id}",
            code="jobs.process_killed",
        )
    return GymError(
        f"{who} failed: expected exit code 0, got {code}",
        hint=f"the traceback is in '{run.worker_log}'",
        code="jobs.process_failed",
    )


def _end(peers: Peers, grace_s: float | None = None) -> None:
    """Waits for the other processes, which lose the connection, and kills those that hang."""
    deadline = time.monotonic() + (GRACE_S if grace_s is None else grace_s)
    for peer in peers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            peer.wait(max(0.0, deadline - time.monotonic()))
        if peer.poll() is None:
            peer.kill()
            peer.wait()
