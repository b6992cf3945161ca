"""Renders chat templates in a child process, within limits of time and memory.

A template is a program of a stranger: it may loop for ever or ask for all the memory there is. One
child serves this process for its life; a template that goes beyond a limit, or that runs when the
user wants to stop, costs the child.
"""

import atexit
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, TypeAlias

from zoo.gym.errors import DoesNotFitError, InputError, InterruptedRunError

RENDER_CPU_S = 20.0
"""Seconds of the processor for one row; real templates take milliseconds."""

RENDER_WALL_S = 300.0
"""The same by the clock, for systems without limits of processor time."""

RENDER_BYTES = 2_000_000_000
"""Memory of the child, its interpreter included."""

_POLL_S = 0.05

Render: TypeAlias = tuple[int, int, bool]
"""Which chat, how many of its turns, and whether a generation prompt follows them."""

_leaving: list[Callable[[], str | None]] = []


@contextmanager
def interruptible(leaving: Callable[[], str | None]) -> Generator[None]:
    """Makes renders inside the block, and `check_leaving`, obey a request to stop.

    Args:
        leaving: returns why to leave, or None.
    """
    _leaving.append(leaving)
    try:
        yield
    finally:
        _leaving.pop()


def check_leaving() -> None:
    """Leaves where that was requested.

    Raises:
        InterruptedRunError: it was.
    """
    if _leaving and (reason := _leaving[-1]()):
        raise InterruptedRunError(f"{reason} before the first step")


class RenderLimitError(InputError):
    """A template took more time or memory than it may."""


class Renderer:
    """A child process that renders; started with the first chat, and again after a limit."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._replies: SimpleQueue[bytes | None] = SimpleQueue()
        self._owner = 0

    def render(
        self,
        source: str,
        today: str,
        variables: Mapping[str, Any],
        chats: Sequence[Sequence[Mapping[str, str]]] = ((),),
        wanted: Sequence[Render] = ((0, 0, False),),
    ) -> list[str]:
        """Returns what a template makes of chats, in one exchange with the child.

        Args:
            source: the template.
            today: the day that `strftime_now` knows.
            variables: values of JSON, the same for all.
            chats: lists of turns.
            wanted: what to render.

        Raises:
            InputError: the template raises, or goes beyond a limit.
            InterruptedRunError: the user wants to stop.
            DoesNotFitError: the system gives no process.
        """
        request = {"source": source, "today": today, "variables": variables}
        content = json.dumps({**request, "chats": chats, "wanted": wanted}).encode()
        with self._lock:
            reply = self._exchange(len(content).to_bytes(4, "big") + content)
        if "texts" in reply:
            return [str(text) for text in reply["texts"]]
        place = f" (line {reply['line']} of the template)" if reply["line"] else ""
        verb = "refuses the chat" if reply["refused"] else "fails"
        raise InputError(f"the model's chat template {verb}: {_visible(reply['error'])}{place}")

    def _exchange(self, request: bytes) -> dict[str, Any]:
        child, reply = self._started(), None
        assert child.stdin is not None
        try:
            child.stdin.write(request)
            child.stdin.flush()
            reply = self._wait(child)
        except BrokenPipeError:  # it is gone
            pass
        finally:
            if reply is None:  # a late answer would be taken for that of the next chat
                self.close()
        if reply is None:
            raise RenderLimitError(
                "the model's chat template was stopped: expected a row to be rendered within "
                f"{RENDER_CPU_S:g} s of the processor and {RENDER_BYTES / 1e9:g} GB of memory",
                hint="a shorter chat, or a model with another template",
            )
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def _wait(self, child: "subprocess.Popen[bytes]") -> bytes | None:
        """Returns the reply, None where the child is gone or was out of time."""
        deadline = time.monotonic() + RENDER_WALL_S
        while time.monotonic() < deadline:
            try:
                return self._replies.get(timeout=_POLL_S)
            except Empty:
                check_leaving()
                if _too_large(child.pid):
                    break
        return None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._child is not None and self._owner == os.getpid() and self._child.poll() is None:
            return self._child
        if self._owner == os.getpid():
            self.close()
        limits = [str(RENDER_CPU_S), str(RENDER_BYTES)]
        file = str(Path(__file__).with_name("render_child.py"))
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-P", file, *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise DoesNotFitError(
                f"the process that renders chat templates cannot be started: {error.strerror}"
            ) from error
        self._owner, self._replies = os.getpid(), SimpleQueue()
        assert self._child.stdout is not None
        Thread(target=_read, args=(self._child.stdout, self._replies), daemon=True).start()
        return self._child

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        if child is None or self._owner != os.getpid():
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(OSError):  # bytes that were left in it
                    pipe.close()


def _read(pipe: IO[bytes], replies: "SimpleQueue[bytes | None]") -> None:
    """Puts each reply into the queue, and None when there will be no more."""
    try:
        while head := pipe.read(4):
            length = int.from_bytes(head, "big")
            reply = pipe.read(length)
            replies.put(reply if len(reply) == length else None)
    except (OSError, ValueError):  # closed while it was read
        pass
    replies.put(None)


def _too_large(pid: int) -> bool:
    """Says whether the child takes more memory than it may, where the system sets no limit."""
    import psutil

    try:
        return bool(psutil.Process(pid).memory_info().rss > RENDER_BYTES)
    except psutil.Error:
        return False


def _visible(text: str) -> str:
    """Returns a message of a template in one line, without characters that steer a terminal."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.split())[:300]


renderer = Renderer()
"""The one of this process."""

atexit.register(renderer.close)
