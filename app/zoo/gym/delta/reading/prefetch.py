"""Prefetches mapped tensors into the page cache in file order, in one thread.

Several threads that page in a mapped tensor read an uncached file at a fraction of the disk's rate;
here one sequential reader prefetches each tensor before the caller receives it.
"""

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from zoo.gym.delta.reading.weights import Weights

if TYPE_CHECKING:
    from io import FileIO

    from zoo.core import TensorInfo

AHEAD_BYTES = 128 << 20
"""The reader pauses while this much is read but not used."""

_PIECE_BYTES = 1 << 20


def reading_ahead(names: Iterable[str], *models: Weights) -> Generator[str]:
    """Yields each name once its tensors are read, while the next ones are being read.

    A caller that does not take all names must close the generator, which stops the reader.
    """
    waiting, pace = list(names), Pace()
    reader = threading.Thread(target=_read_all, args=(waiting, models, pace), daemon=True)
    reader.start()
    try:
        for number, name in enumerate(waiting, 1):
            pace.await_read(number)
            yield name
            pace.use(sum(model.nbytes(name) for model in models if name in model.tensors))
    finally:
        pace.stop()
        reader.join()


class Pace:
    """Keeps the reader ahead of the caller by a limited number of bytes.

    Attributes:
        stopped: True if the reader or the caller has finished.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tensors = 0
        self._ahead_bytes = 0
        self.stopped = False

    def begin(self) -> bool:
        """Waits while too much is read ahead; returns whether to read the next tensor."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or self._ahead_bytes < AHEAD_BYTES)
            return not self.stopped

    def read(self, size: int) -> None:
        """Records a tensor of `size` bytes as read."""
        with self._changed:
            self._tensors += 1
            self._ahead_bytes += size
            self._changed.notify_all()

    def await_read(self, tensors: int) -> None:
        """Waits until this many tensors are read, or the reader has finished."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or self._tensors >= tensors)

    def use(self, size: int) -> None:
        """Records bytes as used."""
        with self._changed:
            self._ahead_bytes -= size
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends all waiting."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()


def _read_all(names: Sequence[str], models: Sequence[Weights], pace: Pace) -> None:
    room = memoryview(bytearray(_PIECE_BYTES))
    with suppress(OSError), ExitStack() as stack:  # the caller gets the same error
        stack.callback(pace.stop)
        # files stay open: sequential readahead of the system grows while a file is read in order
        paths = {path for model in models for path in model.files}
        files = {path: stack.enter_context(path.open("rb", buffering=0)) for path in paths}
        for name in names:
            if not pace.begin():
                return
            tensors = [model.tensors[name] for model in models if name in model.tensors]
            pace.read(sum(_read(files[path], info, room, pace) for path, info in tensors))


def _read(file: "FileIO", info: "TensorInfo", room: memoryview, pace: Pace) -> int:
    """Reads a tensor, unless stopped, and returns its number of bytes."""
    if file.tell() != info.start:
        file.seek(info.start)
    for start in range(info.start, info.stop, len(room)):
        if pace.stopped or not file.readinto(room[: info.stop - start]):
            break
    return info.stop - info.start
