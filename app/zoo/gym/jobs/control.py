"""What a user asks of a running worker, as empty files in the run's `control` folder.

`pause` holds: the process stays with the model loaded. `park` and `stop` save and leave. Files
work over SSH and need neither socket nor port.
"""

import time
from pathlib import Path
from typing import Literal, TypeAlias

from zoo.gym.files import remove_file
from zoo.gym.jobs.events import EventLog
from zoo.gym.paths import PRIVATE_FILE, ensure_folder, storage_error

Request: TypeAlias = Literal["pause", "park", "stop"]

REQUESTS: tuple[Request, ...] = ("stop", "park", "pause")
"""Every request, the one that wins first."""

HOLD_POLL_S = 0.1


class Control:
    """The control folder of one run.

    Args:
        folder: the run's `control` folder; the first request makes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._leaving = False

    def request(self, kind: Request) -> None:
        """Asks the worker to pause, park or stop; asking twice is asking once.

        Raises:
            StorageError: the folder cannot be written.
        """
        ensure_folder(self.folder)
        try:
            (self.folder / kind).touch(mode=PRIVATE_FILE)
        except OSError as error:
            raise storage_error(error, self.folder / kind) from error

    def clear(self, *kinds: Request) -> None:
        """Takes requests back: the named ones, or all when none is named.

        Raises:
            StorageError: the folder cannot be written.
        """
        for kind in kinds or REQUESTS:
            try:
                remove_file(self.folder / kind)
            except OSError as error:
                raise storage_error(error, self.folder / kind) from error

    def leave(self) -> None:
        """Asks this very process to stop, without touching the disk: for signal handlers."""
        self._leaving = True

    def pending(self) -> Request | None:
        """Returns the strongest open request; three looks at the file system."""
        if self._leaving:
            return "stop"
        return next((kind for kind in REQUESTS if (self.folder / kind).exists()), None)


def wait_while_paused(control: Control, events: EventLog) -> Literal["park", "stop"] | None:
    """Holds while a pause is asked for, and says whether to leave; the worker calls it each step.

    Emits `state paused` when the hold begins and `state running` when it is taken back.

    Returns:
        "park" or "stop" when the worker should save and leave, else None.
    """
    request = control.pending()
    if request == "pause":
        events.emit("state", state="paused")
        while (request := control.pending()) == "pause":
            time.sleep(HOLD_POLL_S)
        if request is None:
            events.emit("state", state="running")
    return request
