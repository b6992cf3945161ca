"""Follows a run in the foreground until it ends; Ctrl-C requests the worker to save and stop."""

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
    on_stop: Callable[[], object] | None = None,
) -> Status:
    """Passes on the events of a run as they arrive, until it ends, and returns its last status.

    The first Ctrl-C or SIGTERM requests the worker to save and stop, and the call keeps waiting;
    a second one stops waiting. If the worker dies silently, the status is interrupted.

    Args:
        run: a run that was launched or resumed.
        on_event: called once per event, in order.
        offset: bytes of the log to skip; 0 starts with the run's first event.
        should_stop: polled between events; the first true result stops the run like Ctrl-C.
        on_stop: called once, when the worker has been requested to save and stop.

    Raises:
        GymError: the worker is suspended from outside and cannot save and stop.
        InterruptedRunError: a second Ctrl-C; the worker still saves and stops.
        StorageError: the request to stop could not be written.
    """
    requested = False
    with _caught_presses() as presses:
        for events, status in watch(run, offset):
            for event in events:
                if on_event is not None:
                    on_event(event)
            if not status.live:
                return status
            if presses.count > 1:
                raise InterruptedRunError(
                    f"not waiting for run '{run.id}': it saves and stops",
                    code="jobs.not_waited_for",
                )
            if not requested and (presses.count or (should_stop is not None and should_stop())):
                run.control.request("stop")
                check_answers(run)
                requested = True
                if on_stop is not None:
                    on_stop()
    raise AssertionError("watch ends only when the run is not live")


def watch(run: Run, offset: int = 0) -> Generator[tuple[list[Event], Status]]:
    """Yields the new events of a run with its status, a tenth of a second apart, until it ends.

    Each byte of the log is read once. A log that was replaced is read from its start.

    Args:
        run: any run.
        offset: bytes of the log to skip; 0 starts with the run's first event.

    Raises:
        OSError: the log cannot be read.
    """
    reader = EventReader(run.events.path, offset)
    status, checked = read_status(run) if offset else Status(), time.monotonic()
    while True:
        events = reader.read()
        previous = Status() if reader.restarted else status
        status = replace(fold(previous, events), offset=reader.offset)
        if status.live and not events and time.monotonic() - checked > _CHECK_S:
            status = reconcile(run, status)
            checked = time.monotonic()
            events = reader.read()  # the event that marks it interrupted
        yield events, status
        if not status.live:
            return
        time.sleep(POLL_S)


@contextmanager
def _caught_presses() -> Generator[_Presses]:
    """Counts Ctrl-C and SIGTERM instead of raising; only the main thread receives signals."""
    presses = _Presses()
    if threading.current_thread() is not threading.main_thread():
        yield presses
        return
    caught = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, presses) for number in caught]
    try:
        yield presses
    finally:
        for number, handler in zip(caught, handlers, strict=True):
            signal.signal(number, handler)
