"""The core's threads: after a fork, bounded, refused by the system, and stopped by Ctrl-C."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoo.core import available_isas, majority, use_threads

START = """
import os, resource, signal, sys, threading, time
import numpy as np
from zoo.core import file_digest, hamming, majority, use_threads
from zoo.core.errors import DoesNotFitError

def tasks():
    return len(os.listdir("/proc/self/task"))

rows, cols = [np.full(1 << 16, row, np.uint8) for row in range(9)], 8 << 16
"""

FORK = """
expected = majority(rows, cols).tobytes(), majority(rows, cols, threads=3).tobytes()
child = os.fork()
if child == 0:
    same = (majority(rows, cols).tobytes(), majority(rows, cols, threads=3).tobytes()) == expected
    os._exit(0 if same else 7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

ALONE = """
before = tasks()
majority(rows, cols, threads=1)
use_threads(1)
hamming(rows, cols), file_digest(sys.executable, zero_at=0, zero_len=0)
sys.exit(tasks() - before)
"""

MANY = """
before = tasks()
for count in range(2, 30):
    majority(rows, cols, threads=count)
for _ in range(1000):  # the last four pools stay; the others' threads end when they wake up
    if tasks() - before <= 26 + 27 + 28 + 29:
        sys.exit(0)
    time.sleep(0.01)
sys.exit(7)
"""

NO_ROOM = """
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20),) * 2)
majority(rows, cols, threads=1)
try:
    majority(rows, cols, threads=200)
except DoesNotFitError as error:
    print(error)
"""

INTERRUPT = """
def interrupt():
    time.sleep(0.3)
    signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
row = np.zeros(1 << 22, np.uint8)
try:
    {call}
except KeyboardInterrupt:
    print("stopped")
"""


def run(script: str, *words: str) -> str:
    """Runs a program and returns what it prints; an hour's work would run out of time."""
    command = [sys.executable, "-c", START + script, *words]
    done = subprocess.run(command, timeout=100, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


posix = pytest.mark.skipif(sys.platform != "linux", reason="forks, and counts threads in /proc")


@pytest.mark.slow
@posix
def test_a_forked_child_computes_with_threads_of_its_own() -> None:
    run("use_threads(2)" + FORK)


@pytest.mark.slow
@posix
def test_a_call_on_one_thread_starts_none() -> None:
    run(ALONE)


@pytest.mark.slow
@posix
def test_pools_of_many_sizes_do_not_pile_up() -> None:
    run(MANY)


@pytest.mark.slow
@posix
def test_threads_that_cannot_be_started_do_not_fit() -> None:
    said = run(NO_ROOM)
    assert said.startswith("threads cannot be started: expected 200 more, got ")
    assert "ulimit" in said


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_comparison_that_would_take_an_hour(threads: int) -> None:
    call = f"hamming([row] * 3000, 8 * row.size, threads={threads})"
    assert run(INTERRUPT.format(call=call)) == "stopped\n"


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_the_digest_of_a_huge_file(threads: int, tmp_path: Path) -> None:
    (tmp_path / "huge").touch()
    with (tmp_path / "huge").open("r+b") as file:
        file.truncate(1 << 42)  # 4 TiB without a block on the disk
    call = f"use_threads({threads}); file_digest(sys.argv[1], zero_at=0, zero_len=0)"
    assert run(INTERRUPT.format(call=call), str(tmp_path / "huge")) == "stopped\n"


@pytest.mark.parametrize(("count", "expected"), [(0, "at least 1"), (257, "at most 256")])
def test_an_impossible_number_of_threads_is_refused(count: int, expected: str) -> None:
    with pytest.raises(ValueError, match=f"expected {expected}, got {count}"):
        majority([np.zeros(1, np.uint8)], 8, threads=count, isa=available_isas()[0])


def test_a_default_of_no_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="no threads"):
        use_threads(0)
