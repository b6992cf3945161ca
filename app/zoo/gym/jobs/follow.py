"""Watching a run from the foreground until it ends; Ctrl-C here means: save and stop there."""

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from zoo.gym.errors import InterruptedRunError
from zoo.gym.jobs.actions import check_answers
from zoo.gym.jobs.events import Event, EventReader
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import Status, fold, read_status, reconcile

POLL_S = 0.1
_CHECK_S = 0.5


@dataclass
class _Presses:
    count: int = 0

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1


def follow(
    run: Run,
    on_event: Callable[[Event], None] | None = None,
    *,
    offset: int = 0,
    should_stop: Callable[[], bool] | None = None,
) -> Status:
    """Hands over the events of a run as they come, until it ends, and returns how it ended.

    The first Ctrl-C or SIGTERM asks the worker to save and stop, and the waiting goes on; a second
    one gives up waiting. A worker that dies without a word ends the watch as interrupted.

    Args:
        run: a run that was launched or resumed.
        on_event: called once per event, in order.
        offset: bytes of the log to pass over; 0 begins with the run's first event.
        should_stop: asked between events; the first true answer stops the run like Ctrl-C.

    Raises:
        GymError: the worker is stopped from outside and cannot save and stop.
        InterruptedRunError: a second Ctrl-C; the worker still saves and stops.
        StorageError: the request to stop could not be written.
    """
    asked = False
    with _caught_presses() as presses:
        for events, status in watch(run, offset):
            for event in events:
                if on_event is not None:
                    on_event(event)
            if not status.live:
                return status
            if presses.count > 1:
                raise InterruptedRunError(f"not waiting for run '{run.id}': it saves and stops")
            if not asked and (presses.count or (should_stop is not None and should_stop())):
                run.control.request("stop")
                check_answers(run)
                asked = True
    raise AssertionError("a watch ends with a run that is not live")


def watch(run: Run, offset: int = 0) -> Generator[tuple[list[Event], Status]]:
    """Yields the new events of a run with its status, a tenth of a second apart, until it ends.

    Each byte of the log is read once. A log that another one replaced is read from its start.

    Args:
        run: any run.
        offset: bytes of the log to pass over; 0 begins with the run's first event.

    Raises:
        OSError: the log cannot be read.
    """
    reader = EventReader(run.events.path, offset)
    status, checked = read_status(run) if offset else Status(), time.monotonic()
    while True:
        events = reader.read()
        before = Status() if reader.restarted else status
        status = replace(fold(before, events), offset=reader.offset)
        if status.live and not events and time.monotonic() - checked > _CHECK_S:
            status = reconcile(run, status)
            checked = time.monotonic()
            events = reader.read()  # what it was marked with
        yield events, status
        if not status.live:
            return
        time.sleep(POLL_S)


@contextmanager
def _caught_presses() -> Generator[_Presses]:
    """Counts Ctrl-C and SIGTERM instead of raising; only the main thread gets signals."""
    presses = _Presses()
    if threading.current_thread() is not threading.main_thread():
        yield presses
        return
    caught = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, presses) for number in caught]
    try:
        yield presses
    finally:
        for number, handler in zip(caught, before, strict=True):
            signal.signal(number, handler)
