"""Requests to a running worker, as empty files in the run's `control` folder.

`pause` keeps the process with the model loaded. `park` and `stop` save and exit. Files work over
SSH and need neither a socket nor a port.
"""

import time
from pathlib import Path
from typing import Literal, TypeAlias

from zoo.gym.files import remove_file
from zoo.gym.jobs.events import EventLog
from zoo.gym.paths import PRIVATE_FILE, ensure_folder, storage_error

Request: TypeAlias = Literal["pause", "park", "stop"]

REQUESTS: tuple[Request, ...] = ("stop", "park", "pause")
"""All requests, in order of precedence."""

HOLD_POLL_S = 0.1

_ENDS: dict[str, Literal["parked", "stopped"]] = {"park": "parked", "stop": "stopped"}


class Control:
    """The control folder of one run.

    Args:
        folder: the run's `control` folder; created by the first request.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._leaving = False

    def request(self, kind: Request) -> None:
        """Requests the worker to pause, park or stop; repeating a request has no effect.

        Raises:
            StorageError: the folder cannot be written.
        """
        ensure_folder(self.folder)
        try:
            (self.folder / kind).touch(mode=PRIVATE_FILE)
        except OSError as error:
            raise storage_error(error, self.folder / kind) from error

    def clear(self, *kinds: Request) -> None:
        """Withdraws the given requests, or all of them if none is given.

        Raises:
            StorageError: the folder cannot be written.
        """
        for kind in kinds or REQUESTS:
            try:
                remove_file(self.folder / kind)
            except OSError as error:
                raise storage_error(error, self.folder / kind) from error

    def leave(self) -> None:
        """Requests this process to stop, without touching the disk: for signal handlers."""
        self._leaving = True

    def pending(self) -> Request | None:
        """Returns the pending request with the highest precedence; up to three `stat` calls."""
        if self._leaving:
            return "stop"
        return next((kind for kind in REQUESTS if (self.folder / kind).exists()), None)


def wait_while_paused(control: Control, events: EventLog) -> Literal["parked", "stopped"] | None:
    """Blocks while a pause is requested; the worker calls it after each step.

    Emits `state paused` when the pause begins and `state running` when it is withdrawn.

    Returns:
        "parked" or "stopped" if the worker should save and exit, otherwise None.
    """
    request = control.pending()
    if request == "pause":
        events.emit("state", state="paused")
        while (request := control.pending()) == "pause":
            time.sleep(HOLD_POLL_S)
        if request is None:
            events.emit("state", state="running")
    return None if request is None else _ENDS[request]
