"""Downloads and imports of models: a queue of commands that belongs to the app, not to a screen.

One command runs at a time. How far it is comes from the growth of its files, which is also what it
continues from after a stop.
"""

import asyncio
import json
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

from textual.app import App

from zoo.gym.errors import GymError
from zoo.gym.jobs.command import Command, end_command, start_command
from zoo.models import cache_folder, registry
from zoo.models.gguf import imported_folder

MEASURE_S = 0.5
"""How often the files of a download are measured."""

_RATE_SAMPLES = 20

State = Literal["waiting", "downloading", "importing", "stopped", "failed", "done"]


@dataclass(eq=False)
class Transfer:
    """A command that brings a model here, and how far it is.

    Attributes:
        name: the model's name, or the file that is imported.
        words: the command, without `zoo-gym`.
        total: the bytes to download; None if it is not known.
        done: the bytes that are here.
        message: the error of a failed command, with its hint on a line of its own.
        result: the name of the model, once it is here.
    """

    name: str
    words: tuple[str, ...]
    total: int | None = None
    state: State = "waiting"
    done: int = 0
    message: str = ""
    result: str = ""
    samples: deque[tuple[float, int]] = field(
        default_factory=lambda: deque[tuple[float, int]](maxlen=_RATE_SAMPLES)
    )

    @property
    def command(self) -> str:
        """The command as a user would type it."""
        return shlex.join(["zoo-gym", *self.words])

    @property
    def is_live(self) -> bool:
        """Whether it runs or waits for its turn."""
        return self.state in {"waiting", "downloading", "importing"}

    @property
    def rate(self) -> float | None:
        """The bytes per second of the last seconds; None before there are any."""
        if len(self.samples) < 2:
            return None
        (start, before), (end, after) = self.samples[0], self.samples[-1]
        return (after - before) / (end - start) if end > start and after > before else None

    @property
    def eta_s(self) -> float | None:
        """The seconds that are left at this rate."""
        rate = self.rate
        return (self.total - self.done) / rate if rate and self.total else None


class Downloads:
    """The queue of an app.

    Args:
        app: the app, whose workers run the commands.

    Attributes:
        transfers: all of this session, in order; finished ones stay, so that their end is seen.
    """

    def __init__(self, app: "App[Any]") -> None:
        self.transfers: list[Transfer] = []
        self._app = app
        self._process: Command | None = None
        self._is_working = False

    @property
    def live(self) -> list[Transfer]:
        """Those that run or wait."""
        return [each for each in self.transfers if each.is_live]

    def of(self, name: str) -> Transfer | None:
        """Returns the newest one of a model."""
        return next((each for each in reversed(self.transfers) if each.name == name), None)

    def add(self, transfer: Transfer) -> None:
        """Queues a command, in place of an ended one of the same model."""
        self.transfers = [
            each for each in self.transfers if each.name != transfer.name or each.is_live
        ]
        if all(each.name != transfer.name for each in self.transfers):
            self.transfers.append(transfer)
        if not self._is_working:
            self._is_working = True
            self._app.run_worker(self._work(), name="downloads", exit_on_error=False)

    def stop(self, transfer: Transfer) -> None:
        """Ends a command, or takes it out of the queue; what is here of the model stays."""
        running = transfer.state != "waiting"
        transfer.state = "stopped"
        if running and self._process is not None:
            end_command(self._process)

    async def _work(self) -> None:
        try:
            while waiting := [each for each in self.transfers if each.state == "waiting"]:
                await self._run(waiting[0])
        finally:
            self._is_working = False

    async def _run(self, transfer: Transfer) -> None:
        transfer.state = "importing" if "import" in transfer.words else "downloading"
        measure = asyncio.create_task(_measure(transfer))
        try:
            process = start_command([*transfer.words, "--json"], stderr=PIPE)
            self._process = process
            output, noise = await asyncio.to_thread(process.communicate)
        except GymError as error:
            transfer.state, transfer.message = "failed", _message(error.message, error.hint)
            return
        except (OSError, ValueError):  # its pipes were closed by `stop`
            output, noise = b"", b""
        finally:
            measure.cancel()
            if self._process is not None:
                end_command(self._process)  # of a closed app, too: it would run on unseen
            self._process = None
        _end(transfer, output, noise)


def _end(transfer: Transfer, output: bytes, noise: bytes) -> None:
    """Reads how a command ended, unless it was stopped."""
    if transfer.state == "stopped":
        return
    lines = output.decode("utf-8", "replace").splitlines()
    try:
        answer = cast("dict[str, Any]", json.loads(lines[-1]))
    except (IndexError, ValueError):
        last = next(iter(reversed(noise.decode("utf-8", "replace").splitlines())), "no output")
        transfer.state, transfer.message = "failed", last
        return
    if error := answer.get("error"):
        transfer.state = "failed"
        transfer.message = _message(error["message"], error["hint"])
    else:
        transfer.state, transfer.result = "done", str(answer.get("name", transfer.name))


def _message(message: str, hint: str | None) -> str:
    return f"{message}\n{hint}" if hint else message


async def _measure(transfer: Transfer) -> None:
    """Follows the growth of a download's files."""
    if transfer.state != "downloading":
        return
    while True:
        size = await asyncio.to_thread(_bytes_here, transfer.name)
        transfer.done = min(size, transfer.total) if transfer.total else size
        transfer.samples.append((time.monotonic(), transfer.done))
        await asyncio.sleep(MEASURE_S)


def _bytes_here(name: str) -> int:
    """Returns the bytes of a model's files so far, unfinished ones among them."""
    entry = next((entry for entry in registry() if entry.alias == name), None)
    if entry is not None and entry.hub_id is None:  # from a package, unpacked in a hidden folder
        folders = [path for path in imported_folder().glob(".*") if path.is_dir()]
    else:
        model_id = entry.hub_id if entry and entry.hub_id else name.partition("@")[0]
        folders = [cache_folder() / ("models--" + model_id.replace("/", "--"))]
    return sum(size for folder in folders for size in _sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    try:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path.stat().st_size
    except OSError:  # it was moved while it was read
        return


_QUEUES: "WeakKeyDictionary[App[Any], Downloads]" = WeakKeyDictionary()


def downloads_of(app: "App[Any]", make: Callable[["App[Any]"], Downloads] = Downloads) -> Downloads:
    """Returns the queue of an app."""
    if app not in _QUEUES:
        _QUEUES[app] = make(app)
    return _QUEUES[app]
