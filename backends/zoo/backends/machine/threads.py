"""The number of threads of a run."""

import os
from collections.abc import Generator
from contextlib import contextmanager

SINGLE_THREAD_PARAMETERS = 5_000_000
"""Below this, one thread is faster: synchronisation costs more than the work."""

SLEEP_S = 0.5
"""How long other programs are watched."""


def choose_threads(parameters: int) -> int:
    """Returns the number of compute threads for a model with this many parameters.

    It is `OMP_NUM_THREADS` if that is set. Otherwise cores that other programs keep busy are not
    counted; the result is at least 1.
    """
    if parameters < SINGLE_THREAD_PARAMETERS:
        return 1
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if threads.isascii() and threads.isdigit() and int(threads):
        return min(int(threads), available_cores())
    return max(1, available_cores() - busy_cores())


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_cores() -> int:
    """Returns how many cores are busy while this process sleeps for a moment, rounded.

    The load of the last minute would count what this process itself did in it.
    """
    import psutil

    share: float = psutil.cpu_percent(interval=SLEEP_S) / 100
    return round(share * (psutil.cpu_count() or 1))


def use_threads(count: int) -> None:
    """Sets the number of threads of torch and the Rust core."""
    import torch

    from zoo import core

    core.use_threads(count)
    torch.set_num_threads(count)


@contextmanager
def callers_state_kept() -> Generator[None]:
    """Restores torch's thread count and random state when the block ends."""
    import torch

    threads = torch.get_num_threads()
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else ()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def with_threads(count: int | None) -> Generator[None]:
    """Runs the block with this many threads, then restores the number; None changes nothing."""
    import torch

    threads = torch.get_num_threads()
    if count is not None:
        use_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
