"""Time of `zoo-gym --help` above that of an empty Python program."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.measure import Case

REPEATS = 11


def wall_s(command: list[str]) -> float:
    """Returns the wall time of a command in seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def run() -> Iterator[Case]:
    """Yields the case; the two commands alternate."""
    program = str(Path(sys.executable).with_name("zoo-gym"))
    pairs = [
        (wall_s([program, "--help"]), wall_s([sys.executable, "-c", "pass"]))
        for _ in range(REPEATS)
    ]
    over_s = median(mine - bare for mine, bare in pairs)
    yield Case("zoo-gym --help over python", over_s, "s", "python -c pass", over_s, "<= 0.25")
