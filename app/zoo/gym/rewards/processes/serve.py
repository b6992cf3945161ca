"""The child's side of `workers.py`: answers requests until its stdin ends.

Whatever the code of a reward prints goes to stderr, and it reads nothing from stdin: both carry
requests and replies. A child whose parent is gone ends itself.
"""

import json
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping
from threading import Thread
from types import MappingProxyType
from typing import IO, Any

CPU_LIMITS = 4.0
"""CPU time that a request may take, in time limits on every core."""

_PARENT_POLL_S = 1.0


def serve(
    prepare: Callable[[], Callable[[dict[str, Any]], Mapping[str, object]]],
    timeout_s: float,
    sources: Callable[[], Mapping[str, str]] = dict[str, str],
    hello: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Calls `prepare` once, and the function that it returns for each request.

    Args:
        prepare: returns the function; a `ValueError` refuses to start, with its message.
        timeout_s: the parent's time limit of a request. A process that still computes long after
            it, because its parent is gone, is ended by the system.
        sources: returns the digests of the files that were imported since its last call.
        hello: what the first message says besides, after `prepare`.
    """
    most_cpu_s = CPU_LIMITS * timeout_s * (os.cpu_count() or 1)
    requests, replies = _claim_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        answer = prepare()
    except ValueError as error:
        _send(replies, {"refused": str(error)})
        return
    _send(replies, {**hello, "sources": sources()})
    while head := requests.read(4):
        request = json.loads(requests.read(struct.unpack(">I", head)[0]))
        _limit_cpu(most_cpu_s)
        reply = answer(request)
        _send(replies, {**reply, "sources": sources()})
        _limit_cpu(0)


def _claim_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Moves stdin and stdout to other descriptors; prints go to stderr from now on."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies


def _limit_cpu(seconds: float) -> None:
    """Has the system end this process after some seconds of CPU time; 0 switches that off."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _send(pipe: IO[bytes], reply: Mapping[str, object]) -> None:
    content = json.dumps(reply).encode()
    pipe.write(struct.pack(">I", len(content)) + content)
    pipe.flush()


def _end_with_parent(parent: int) -> None:
    """Ends the process when its parent is gone, unless Python code is stuck in a library."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)
