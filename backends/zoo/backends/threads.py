"""How many threads a run takes."""

import os
from collections.abc import Generator
from contextlib import contextmanager

SINGLE_THREAD_PARAMETERS = 5_000_000
"""Below this one thread is faster: handing out the work costs more than the work."""


def choose_threads(parameters: int) -> int:
    """Returns the number of compute threads for a model of that many parameters.

    Cores that other programs keep busy are left alone; at least one thread is taken.
    """
    if parameters < SINGLE_THREAD_PARAMETERS:
        return 1
    return max(1, available_cores() - busy_cores())


def available_cores() -> int:
    """Returns the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_cores() -> int:
    """Returns the cores that were busy over the last minute, rounded down."""
    if not hasattr(os, "getloadavg"):
        return 0
    return int(os.getloadavg()[0])


def use_threads(count: int) -> None:
    """Makes torch and the Rust core use that many threads."""
    import torch

    from zoo import core

    core.use_threads(count)
    torch.set_num_threads(count)


@contextmanager
def callers_state_kept() -> Generator[None]:
    """Gives a caller's threads and random state of torch back when the block ends."""
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
    """Computes the block with that many threads, and then again with the caller's; None keeps."""
    import torch

    threads = torch.get_num_threads()
    if count is not None:
        use_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
