"""Processes that answer requests, each within a time limit; for rewards that run code.

A request and its reply are JSON objects, each preceded by its length in 4 bytes. A process that
does not answer in time is killed with everything that it started, and the next request gets a new
one, which has to run the same files as the first. `serve.py` is the other side.
"""

import atexit
import json
import os
import struct
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Any

from zoo.gym.errors import DoesNotFitError
from zoo.gym.rewards.processes.group import kill, start

START_S = 300.0
"""Time for a process to start: what it imports may take minutes on a slow disk."""

_Reply = dict[str, Any]


class Workers:
    """One or more processes of the same program; started with the first request.

    Args:
        argv: the program and its arguments.
        timeout_s: the time limit of one request.
        count: the number of processes.
    """

    def __init__(self, argv: Sequence[str], *, timeout_s: float, count: int = 1) -> None:
        self._argv, self._timeout_s = tuple(argv), timeout_s
        self._digests: dict[str, str] = {}
        self._processes = [_Worker(self._argv, self._digests) for _ in range(count)]
        _open.add(self)

    def start(self) -> _Reply:
        """Starts the first process and returns what it reports: `{}`, or `{"refused": ...}`."""
        return self._processes[0].started()

    @property
    def sources(self) -> dict[str, str]:
        """The SHA-256 of each file of the user that a process has imported so far, by path."""
        return dict(self._digests)

    def ask(self, requests: Sequence[Mapping[str, Any]]) -> list[_Reply]:
        """Returns the reply to each request, in order; `{"failed": reason}` without a reply.

        A process that could not be started, or runs changed files, adds `"unstarted": True`: no
        request is to blame.
        """
        replies: list[_Reply] = [{} for _ in requests]
        left: SimpleQueue[int] = SimpleQueue()
        for index in range(len(requests)):
            left.put(index)

        def work(worker: _Worker) -> None:
            with suppress(Empty):
                while True:
                    index = left.get_nowait()
                    replies[index] = worker.ask(requests[index], self._timeout_s)

        rest = self._processes[1 : len(requests)]
        threads = [Thread(target=work, args=(process,), daemon=True) for process in rest]
        for thread in threads:
            thread.start()
        work(self._processes[0])
        for thread in threads:
            thread.join()
        return replies

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._processes:
            worker.close()


class _Worker:
    """One process and its pipes.

    Args:
        argv: the program and its arguments.
        digests: those of the files that any process has imported so far.
    """

    def __init__(self, argv: Sequence[str], digests: dict[str, str]) -> None:
        self._argv, self._digests = argv, digests
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: SimpleQueue[_Reply | None] = SimpleQueue()
        self._owner, self._lock = 0, Lock()

    def started(self) -> _Reply:
        """Starts the process unless it is running, and returns its first message."""
        if self._process is not None and self._owner == os.getpid() and self._is_running():
            return {}
        if self._owner == os.getpid():
            self.close()
        try:
            self._process, self._owner = start(self._argv), os.getpid()
        except DoesNotFitError as error:
            return {"failed": error.message}
        self._replies = SimpleQueue()
        assert self._process.stdout is not None
        Thread(target=_read, args=(self._process.stdout, self._replies), daemon=True).start()
        hello = self._wait(START_S)
        if hello is None or "failed" in hello or "refused" in hello:
            self.close()
        return hello if hello is not None else {"failed": "the process ended while starting"}

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> _Reply:
        """Returns the reply; after a failure the process is gone."""
        hello = self.started()
        if reason := hello.get("failed", hello.get("refused")):
            return {"failed": reason, "unstarted": True}
        assert self._process is not None
        assert self._process.stdin is not None
        content, reply = json.dumps(request).encode(), None
        try:
            self._process.stdin.write(struct.pack(">I", len(content)) + content)
            self._process.stdin.flush()
            reply = self._wait(timeout_s)
        except BrokenPipeError:
            reply = {"failed": "the process ended"}
        finally:
            if reply is None or "failed" in reply:
                self.close()
        return reply if reply is not None else {"failed": "no reply"}

    def _wait(self, timeout_s: float) -> _Reply:
        try:
            reply = self._replies.get(timeout=timeout_s)
        except Empty:
            return {"failed": f"no result within {timeout_s:g} s"}
        if reply is None:
            return {"failed": f"the process ended{self._how()}"}
        for file, digest in reply.pop("sources", {}).items():
            if self._digests.setdefault(file, digest) != digest:
                return {"failed": f"'{file}' has changed since it was read", "unstarted": True}
        return reply

    def _how(self) -> str:
        """Returns how the process ended, for a message."""
        assert self._process is not None
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return ""
        return f" with exit code {code}" if code >= 0 else f" by signal {-code}"

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            kill(process)


def _read(pipe: IO[bytes], replies: "SimpleQueue[_Reply | None]") -> None:
    """Puts each reply in the queue, and None at the end."""
    with suppress(OSError, ValueError):  # closed while being read, or not JSON
        while head := pipe.read(4):
            content = pipe.read(struct.unpack(">I", head)[0])
            replies.put(json.loads(content))
    replies.put(None)


_open: "weakref.WeakSet[Workers]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for workers in list(_open):
        workers.close()
