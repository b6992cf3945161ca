"""Iterates over the tensors of a model and reports progress: bytes done, in total, time left."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Passed:
    """How far a pass is.

    Attributes:
        tensor: the one that was just finished.
        done_bytes: of all tensors so far.
        total_bytes: of all tensors.
        seconds: since the start.
    """

    tensor: str
    done_bytes: int
    total_bytes: int
    seconds: float

    @property
    def eta_s(self) -> float:
        """Seconds that the rest takes at the rate so far."""
        left = self.total_bytes - self.done_bytes
        return self.seconds * left / self.done_bytes if self.done_bytes else 0.0


Watch = Callable[[Passed], None]


def ignore(_: Passed) -> None:
    """Looks away."""


def passing(sizes: Mapping[str, int], watch: Watch) -> Iterator[str]:
    """Yields each name, and tells `watch` when the caller comes back for the next one.

    Args:
        sizes: bytes to go through, by tensor.
        watch: hears of each tensor that is done.
    """
    started, total, done = time.monotonic(), sum(sizes.values()), 0
    for name, size in sizes.items():
        yield name
        done += size
        watch(Passed(name, done, total, time.monotonic() - started))
