"""The thread that computes answers, for coroutines that wait for them.

The event loop never computes: it queues requests, and gets each token as the thread has it.
"""

import asyncio
import queue
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from zoo.backends.batching import BLOCKED, FAILED
from zoo.gym.errors import GymError, InputError

if TYPE_CHECKING:
    from zoo.backends.batching import Adapter, Batcher, Request
    from zoo.backends.sampling import TokenEvent

Watch: TypeAlias = "Callable[[Request, AsyncGenerator[TokenEvent]], AsyncGenerator[TokenEvent]]"


class BusyError(GymError):
    """As many requests wait as may."""


class FailedError(GymError):
    """An answer ended with an error of the engine."""


@dataclass(eq=False)
class Ticket:
    """A request that was queued.

    Attributes:
        request: what is answered.
        loop: where it is waited for.
        events: its tokens, or the error that ended it.
    """

    request: "Request"
    loop: asyncio.AbstractEventLoop
    events: "asyncio.Queue[TokenEvent | Exception]" = field(default_factory=asyncio.Queue)

    def deliver(self, event: "TokenEvent | Exception") -> None:
        """Hands over a token or an error, from the thread."""
        self.loop.call_soon_threadsafe(self.events.put_nowait, event)


def _ended(event: "TokenEvent") -> "TokenEvent | GymError":
    """Returns a token, or the error for which its answer could not go on."""
    if event.finish == FAILED:
        return FailedError("the numbers of this variant overflow", code="serving.overflow")
    if event.finish == BLOCKED:
        return InputError(
            "response_format: no token of the model continued an answer in this form",
            code="serving.blocked",
        )
    return event


class Engine:
    """Answers requests with a batcher, in a thread of its own.

    Args:
        batcher: computes the answers; only the thread uses it.
        most: requests that may wait or be answered at once.

    Attributes:
        watch: passes on the tokens of an answer, for figures of a server.
    """

    def __init__(self, batcher: "Batcher", *, most: int) -> None:
        self._batcher, self.most = batcher, most
        self.watch: Watch | None = None
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._rows: dict[int, Ticket] = {}
        self._active = 0  # tickets that were queued and have not ended; of the event loop
        self._thread = threading.Thread(target=self._run, name="zoo-gym-serving", daemon=True)
        self._thread.start()

    @property
    def active(self) -> int:
        """The requests that wait or are being answered."""
        return self._active

    async def add_adapter(self, name: str, adapter: "Adapter") -> None:
        """Makes an adapter available.

        Raises:
            InputError: it does not fit the model.
        """
        await self._done(lambda: self._batcher.add_adapter(name, adapter))

    async def remove_adapter(self, name: str) -> None:
        """Removes an adapter."""
        await self._done(lambda: self._batcher.remove_adapter(name))

    def stream(self, request: "Request") -> "AsyncGenerator[TokenEvent]":
        """Returns an iterator over the tokens of an answer; closing it cancels the answer.

        Raises:
            BusyError: too many requests wait.
            ValueError: see `Batcher.add`.
            FailedError: the engine failed.
            InputError: no token continues an answer in its form.
        """
        events = self._stream(request)
        return events if self.watch is None else self.watch(request, events)

    async def _stream(self, request: "Request") -> "AsyncGenerator[TokenEvent]":
        if self._active >= self.most:
            raise BusyError(
                f"server: expected fewer than {self.most} requests at once, got one more",
                code="serving.busy",
            )
        ticket = Ticket(request, asyncio.get_running_loop())
        self._active += 1
        try:
            self._work.put(lambda: self._admit(ticket))
            while True:
                event = await ticket.events.get()
                if isinstance(event, Exception):
                    raise event
                yield event
                if event.finish is not None:
                    return
        finally:
            self._active -= 1
            self._work.put(lambda: self._cancel(ticket))

    def close(self) -> None:
        """Ends the thread; answers that have not ended fail."""
        self._work.put(None)
        self._thread.join()

    async def _done(self, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - handed to the coroutine that waits
                loop.call_soon_threadsafe(result.set_exception, error)
            else:
                loop.call_soon_threadsafe(result.set_result, None)

        self._work.put(run)
        await result

    # ---- in the thread

    def _run(self) -> None:
        while True:
            while not self._work.empty() or not self._batcher.busy:
                if (work := self._work.get()) is None:
                    self._end(FailedError("the server has stopped", code="serving.stopped"))
                    self._batcher.close()
                    return
                work()
            try:
                for event in self._batcher.step():
                    if (ticket := self._rows.get(event.row)) is not None:
                        ticket.deliver(_ended(event))
                        if event.finish is not None:
                            del self._rows[event.row]
            except Exception:  # noqa: BLE001 - one bad step must not end the server
                traceback.print_exc(file=sys.stderr)
                self._batcher.clear()  # else the same rows would fail again and again
                self._end(FailedError("the answer could not be computed", code="serving.failed"))

    def _admit(self, ticket: Ticket) -> None:
        try:
            row = self._batcher.add(ticket.request)
        except (ValueError, KeyError) as error:
            ticket.deliver(error)
        else:
            self._rows[row] = ticket

    def _cancel(self, ticket: Ticket) -> None:
        for row, other in list(self._rows.items()):
            if other is ticket:
                self._batcher.cancel(row)
                del self._rows[row]

    def _end(self, error: Exception) -> None:
        for ticket in self._rows.values():
            ticket.deliver(error)
        self._rows.clear()
