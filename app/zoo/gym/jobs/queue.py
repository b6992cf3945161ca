"""One run at a time on a device: later runs wait, first come, first served.

A run that wants a device takes a numbered place: a file in the device's folder that it keeps
locked. The operating system releases the lock when the process ends, however it ends, and the
lowest place that is still locked has the device. A kill or power cut leaves nothing to clean up.
"""

import re
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from zoo.gym.errors import GymError, InterruptedRunError, NotAvailableError
from zoo.gym.files.lock import locked
from zoo.gym.jobs.control import wait_while_paused
from zoo.gym.jobs.run import Run
from zoo.gym.paths import ensure_folder, folders

POLL_S = 0.2


class DeviceInUseError(NotAvailableError):
    """Another run has the device."""


_GATE = "gate.lock"
_GATE_S = 30.0
_PLACE = re.compile(r"([0-9]{8,18})-(.+)\.lock", re.DOTALL)


@contextmanager
def turn_on_device(run: Run, device: str, *, wait: bool = True) -> Generator[None]:
    """Holds a device for the duration of a `with` block, after waiting for every earlier run.

    Emits `state queued` with the runs ahead when the wait begins and `state running` when it
    ends. A pause during the wait gives up the place, and the run queues again at the end.

    Args:
        run: the run that needs the device.
        device: its key, from `zoo.backends.machine.detect.device_key`.
        wait: False raises if the device is in use.

    Raises:
        InterruptedRunError: a stop or park came during the wait.
        DeviceInUseError: the device is in use and `wait` is False.
        StorageError: the folder of places cannot be written.
    """
    name = device.partition("-")[0]
    while True:
        with place_in_line(folders().devices / device, run.id) as lock:
            reported: list[str] = []
            while (ahead := runs_ahead(lock)) and run.control.pending() is None:
                if not wait:
                    raise _taken(name, ahead[0])
                if ahead != reported:
                    run.events.emit("state", state="queued", **_waiting(run, name, ahead))
                    reported = ahead
                time.sleep(POLL_S)
            if not ahead:
                if reported:
                    run.events.emit("state", state="running")
                yield
                return
        leaving = wait_while_paused(run.control, run.events)
        if leaving is not None:
            raise InterruptedRunError(f"{leaving} while waiting for {name}", code="jobs.stopped")


@contextmanager
def place_in_line(folder: Path, run_id: str) -> Generator[Path]:
    """Takes the last place in a device's queue, and gives it up when the block ends.

    Raises:
        GymError: the lock of the queue is not released in time.
        StorageError: the folder cannot be written.
    """
    ensure_folder(folder)
    with ExitStack() as mine:
        # until it is locked, a new place looks like one whose process is gone
        with locked(folder / _GATE, wait_s=_GATE_S) as alone:
            if not alone:
                raise GymError(
                    f"'{folder / _GATE}' was locked for {_GATE_S:g} s: expected it free",
                    code="jobs.locked",
                )
            lock = folder / f"{1 + _sweep(folder):08d}-{run_id}.lock"
            mine.enter_context(locked(lock))
        yield lock


def runs_ahead(lock: Path) -> list[str]:
    """Returns the live runs ahead of a place, in order; the place need not be there any more."""
    places, mine = _places(lock.parent), int(lock.name.partition("-")[0])
    return [run_id for number, run_id, path in places if number < mine and _is_taken(path)]


def _sweep(folder: Path) -> int:
    """Removes places whose processes are gone and returns the last number; hold the gate."""
    last = 0
    for number, _, path in _places(folder):
        if _is_taken(path):
            last = number
        else:
            with suppress(PermissionError):  # Windows, while a waiting run has it open
                path.unlink(missing_ok=True)
    return last


def _is_taken(lock: Path) -> bool:
    with locked(lock) as free:
        return not free


def _places(folder: Path) -> list[tuple[int, str, Path]]:
    named = [(_PLACE.fullmatch(path.name), path) for path in folder.iterdir() if path.is_file()]
    return sorted((int(match[1]), match[2], path) for match, path in named if match)


def _waiting(run: Run, device: str, ahead: list[str]) -> dict[str, object]:
    behind = ", ".join(ahead)
    return {
        "message": f"waiting for {device} behind {behind}: starts automatically when it is free",
        "hint": f"to start sooner: zoo-gym runs pause {ahead[0]} --park; "
        f"to cancel: zoo-gym runs stop {run.id}",
    }


def _taken(device: str, run_id: str) -> DeviceInUseError:
    return DeviceInUseError(
        f"{device} is in use: expected a free device, got run '{run_id}' on it",
        hint=f"wait until it ends, or park it: zoo-gym runs pause {run_id} --park",
        code="jobs.device_in_use",
    )
