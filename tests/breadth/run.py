"""Measures families, each in a process of its own: a crash or a hang is a cell, no more.

Libraries are imported once, by the server that every child is forked from.
"""

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

CPU_S, WALL_S, DATA_BYTES = 120, 900, 4 << 30
"""What one family may take."""

Result = tuple[dict[str, str], str]


def child(name: str, pipe: Connection, verbose: bool = False) -> None:
    """Measures one family, and sends cells and tracebacks."""
    import warnings

    import torch

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
    if not verbose:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from tests.breadth.probe import measure
    from zoo.backends.torch.quiet import quiet

    with tempfile.TemporaryDirectory(prefix="breadth-") as folder, quiet():
        pipe.send(measure(name, Path(folder)))


class Running:
    """A child and its end of the pipe."""

    def __init__(self, name: str, context: Any) -> None:
        self.name, self.started = name, time.monotonic()
        self.pipe, other = context.Pipe(duplex=False)
        self.process = context.Process(target=child, args=(name, other), daemon=True)
        self.process.start()
        other.close()

    def overdue(self) -> bool:
        return time.monotonic() - self.started > WALL_S

    def result(self) -> Result:
        """Returns what it sent; what it died of if it sent nothing."""
        if self.overdue():
            self.process.kill()
        try:
            found: Result = self.pipe.recv()
        except EOFError:
            self.process.join()
            found = ({"loads": f"crash: killed ({self.process.exitcode})"}, "")
        self.process.join()
        self.pipe.close()
        return found


def run(names: list[str], processes: int) -> dict[str, Result]:
    """Measures families, so many at a time, and returns cells and tracebacks by name."""
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.breadth.preload"])
    waiting, running, found = list(names), list[Running](), dict[str, Result]()
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(Running(waiting.pop(0), context))
        ready = wait([one.pipe for one in running], timeout=5)
        for one in [one for one in running if one.pipe in ready or one.overdue()]:
            found[one.name] = one.result()
            running.remove(one)
            text = ", ".join(f"{k} {v}" for k, v in found[one.name][0].items() if v != "ok")
            print(
                f"{time.monotonic() - one.started:5.0f} s  {one.name}: {text or 'ok'}",
                file=sys.stderr,
                flush=True,
            )
    return found
