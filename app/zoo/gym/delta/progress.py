"""Iterates over the tensors of a model and reports progress: bytes done, in total, time left."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Passed:
    """The progress of a pass over tensors.

    Attributes:
        tensor: the tensor that was just finished.
        done_bytes: bytes of all finished tensors.
        total_bytes: bytes of all tensors.
        seconds: seconds since the start.
    """

    tensor: str
    done_bytes: int
    total_bytes: int
    seconds: float

    @property
    def eta_s(self) -> float:
        """Estimated seconds left, at the average rate so far."""
        left = self.total_bytes - self.done_bytes
        return self.seconds * left / self.done_bytes if self.done_bytes else 0.0


Watch = Callable[[Passed], None]


def ignore(_: Passed) -> None:
    """Does nothing: the default `Watch`."""


def passing(sizes: Mapping[str, int], watch: Watch) -> Iterator[str]:
    """Yields each name, and calls `watch` when the caller requests the next one.

    Args:
        sizes: bytes by tensor.
        watch: called with the progress after each tensor.
    """
    started, total, done = time.monotonic(), sum(sizes.values()), 0
    for name, size in sizes.items():
        yield name
        done += size
        watch(Passed(name, done, total, time.monotonic() - started))
