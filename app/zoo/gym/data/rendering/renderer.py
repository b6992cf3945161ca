"""Renders chat templates in a child process, within limits of time and memory.

A template is untrusted code: it may loop forever or allocate all memory. One child serves this
process for its lifetime; it is killed when a template exceeds a limit or a stop is requested.
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
"""CPU seconds for one row; real templates take milliseconds."""

RENDER_WALL_S = 300.0
"""The same as wall time, for systems without CPU time limits."""

RENDER_BYTES = 2_000_000_000

_POLL_S = 0.05

Render: TypeAlias = tuple[int, int, bool]
"""The index of a chat, its number of turns, and whether to add a generation prompt."""

_leaving: list[Callable[[], str | None]] = []


@contextmanager
def interruptible(leaving: Callable[[], str | None]) -> Generator[None]:
    """Makes renders inside the block, and `check_leaving`, obey requests to stop.

    Args:
        leaving: returns how the run is to end ("stopped" or "parked"), or None to continue.
    """
    _leaving.append(leaving)
    try:
        yield
    finally:
        _leaving.pop()


def check_leaving() -> None:
    """Raises if the run is to stop.

    Raises:
        InterruptedRunError: a stop was requested.
    """
    if _leaving and (reason := _leaving[-1]()):
        raise InterruptedRunError(f"{reason} before the first step", code="data.stopped")


class RenderLimitError(InputError):
    """A template exceeded its time or memory limit."""


class Renderer:
    """A child process for rendering; started with the first chat and restarted after a limit."""

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
        chats: Sequence[Sequence[Mapping[str, object]]] = ((),),
        renders: Sequence[Render] = ((0, 0, False),),
        tools: Sequence[object] = (),
    ) -> list[str]:
        """Returns chats rendered with a template, in one exchange with the child.

        Args:
            today: the date for `strftime_now`.
            variables: JSON values, the same for all chats.
            tools: the definitions of tools for each chat; empty for the variable `tools`.

        Raises:
            InputError: the template raises or exceeds a limit.
            InterruptedRunError: a stop was requested.
            DoesNotFitError: the system cannot start a process.
        """
        request: dict[str, Any] = {"source": source, "today": today, "variables": variables}
        request |= {"chats": chats, "renders": renders, "tools": tools}
        content = json.dumps(request).encode()
        with self._lock:
            reply = self._exchange(len(content).to_bytes(4, "big") + content)
        if "texts" in reply:
            return [str(text) for text in reply["texts"]]
        line = f" (line {reply['line']} of the template)" if reply["line"] else ""
        # the template's message as one line, without control characters
        words = "".join(c if c.isprintable() else " " for c in reply["error"]).split()
        reason = f"{' '.join(words)[:300]}{line}"
        if reply["refused"]:
            raise InputError(
                f"the model's chat template refuses the chat: {reason}",
                code="data.refused_by_template",
            )
        raise InputError(f"the model's chat template fails: {reason}", code="data.template_failed")

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
            if reply is None:  # a late reply would be mistaken for that of the next chat
                self.close()
        if reply is None:
            raise RenderLimitError(
                "the model's chat template was stopped: expected a row to be rendered within "
                f"{RENDER_CPU_S:g} s of CPU time and {RENDER_BYTES / 1e9:g} GB of memory",
                hint="use shorter chats, or a model with another template",
                code="data.render_limit",
            )
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def _wait(self, child: "subprocess.Popen[bytes]") -> bytes | None:
        """Returns the reply, or None if the child died or timed out."""
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
                f"the process that renders chat templates cannot be started: {error.strerror}",
                code="data.no_renderer",
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
                with suppress(OSError):  # unread bytes
                    pipe.close()


def _read(pipe: IO[bytes], replies: "SimpleQueue[bytes | None]") -> None:
    """Puts each reply in the queue, and None at the end."""
    try:
        while head := pipe.read(4):
            length = int.from_bytes(head, "big")
            reply = pipe.read(length)
            replies.put(reply if len(reply) == length else None)
    except (OSError, ValueError):  # closed while being read
        pass
    replies.put(None)


def _too_large(pid: int) -> bool:
    """Returns whether the child exceeds its memory limit, on systems that do not enforce it."""
    import psutil

    try:
        return bool(psutil.Process(pid).memory_info().rss > RENDER_BYTES)
    except psutil.Error:
        return False


renderer = Renderer()

atexit.register(renderer.close)
