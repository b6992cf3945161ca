"""Runs untrusted Python code with tests in a confined process, within limits.

The process cannot reach the network, start processes or threads, or signal others. It reads only
Python and the system's libraries, writes only to a temporary folder that is its home, and inherits
no environment. Time, memory and what it writes are limited. A program that tries to cheat, by
changing what the tests call, can still do so: code and tests share one interpreter.
"""

import json
import math
import os
import secrets
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import IO, Any, cast

from zoo.gym.rewards.code.folder import MOST_FILE_BYTES, excess, is_observable, remove
from zoo.gym.rewards.processes.group import kill, start

WALL_TO_CPU = 4.0
"""Time by the clock for each second of CPU time, so that other programs do not change results."""

_MOST_REPLY_BYTES = 1_000_000
_POLL_S = 0.05
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom")


@dataclass(frozen=True)
class Limits:
    """The limits of one program.

    Attributes:
        timeout_s: seconds of CPU time, rounded up; by the clock `WALL_TO_CPU` times as long.
        memory_bytes: address space, that of the interpreter included.
        unconfined: run it even where the system cannot confine it.
    """

    timeout_s: float
    memory_bytes: int
    unconfined: bool = False


@dataclass(frozen=True)
class Program:
    """Code and the tests that run after it, each a piece of Python source.

    Attributes:
        code: the code.
        tests: the tests.
        others: sources that may define what the code uses and does not define.
    """

    code: str
    tests: tuple[str, ...]
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What happened.

    Attributes:
        failures: for each test None if it passed, or what failed; empty without a result.
        problem: why there is no result, such as a limit that was exceeded; empty if there is one.
        refused: why the system cannot confine the program, which was not run then; else empty.
    """

    failures: tuple[str | None, ...] = ()
    problem: str = ""
    refused: str = ""


def run_all(programs: Sequence[Program], limits: Limits) -> list[Outcome]:
    """Runs several programs at once and returns their outcomes in order."""
    with ThreadPoolExecutor(max(1, min(len(programs), os.cpu_count() or 1))) as pool:
        return list(pool.map(partial(run_program, limits=limits), programs))


def run_program(program: Program, limits: Limits) -> Outcome:
    """Runs one program to its end, or to a limit.

    Raises:
        DoesNotFitError: the system cannot start a process.
    """
    folder = Path(tempfile.mkdtemp(prefix="zoo-gym-")).resolve()
    key = secrets.token_hex(16)
    try:
        process = start(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("sandbox_child.py"))],
            env=_environment(folder),
            cwd=folder,
            stderr=subprocess.DEVNULL,
        )
        try:
            return _exchange(process, _request(program, limits, folder, key), folder, limits, key)
        finally:
            kill(process)
    finally:
        remove(folder)


def _environment(folder: Path) -> dict[str, str]:
    home = str(folder)
    env = {"HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    env |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if sys.platform == "win32":
        environment = {key: os.environ[key] for key in ("SYSTEMROOT",) if key in os.environ}
        env |= {"USERPROFILE": home, "TEMP": home, "TMP": home, **environment}
    return env


def _request(program: Program, limits: Limits, folder: Path, key: str) -> dict[str, Any]:
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    return {
        "code": program.code,
        "tests": program.tests,
        "others": program.others,
        "folder": str(folder),
        "readable": [*sorted(python), *_SYSTEM],
        "packages": site.getsitepackages(),
        "memory_bytes": limits.memory_bytes,
        "cpu_s": max(1, math.ceil(limits.timeout_s)),
        "file_bytes": MOST_FILE_BYTES,
        "unconfined": limits.unconfined,
        "platform": sys.platform,
        "key": key,
    }


def _exchange(
    process: "subprocess.Popen[bytes]",
    request: dict[str, Any],
    folder: Path,
    limits: Limits,
    key: str,
) -> Outcome:
    assert process.stdin is not None
    assert process.stdout is not None
    if sys.platform == "linux" and not limits.unconfined and not is_observable(process.pid):
        return Outcome(refused=f"/proc/{process.pid} does not list its open files")
    content: list[bytes] = []
    reader = Thread(target=_read, args=(process.stdout, content), daemon=True)
    reader.start()
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
    wall_s = WALL_TO_CPU * limits.timeout_s
    deadline = time.monotonic() + wall_s
    while not _is_over(process, reader):
        if time.monotonic() > deadline:
            return Outcome(problem=f"no result within {wall_s:g} s")
        if problem := excess(folder, process.pid):
            return Outcome(problem=problem)
    if problem := excess(folder):
        return Outcome(problem=problem)
    return _outcome(b"".join(content), process.returncode, len(request["tests"]), key)


def _is_over(process: "subprocess.Popen[bytes]", reader: Thread) -> bool:
    """Waits a moment; returns whether the process has ended and its reply is read."""
    reader.join(_POLL_S)
    if reader.is_alive():
        return False
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _outcome(content: bytes, code: int, tests: int, key: str) -> Outcome:
    """Returns the outcome that a reply describes; a forged or missing one is a problem."""
    try:
        reply: object = json.loads(content)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or reply.get("key") != key:
        if sys.platform != "win32" and -code == signal.SIGXCPU:
            return Outcome(problem="it exceeded the limit of CPU time")
        ending = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return Outcome(problem=f"the process ended without a result: {ending}")
    match cast("dict[str, object]", reply):
        case {"refused": str(reason)}:
            return Outcome(refused=reason)
        case {"tests": [*results]} if len(results) == tests:
            return Outcome(tuple(None if text is None else _text(text) for text in results))
        case _:
            return Outcome(problem="the process ended with a forged result")


def _text(failure: object) -> str:
    """Returns what failed, as text that can be written to any file."""
    text = failure if isinstance(failure, str) else "no message"
    return text.encode(errors="replace").decode()


def _read(pipe: IO[bytes], content: list[bytes]) -> None:
    """Reads a reply up to its limit; the rest stays in the pipe."""
    with suppress(OSError, ValueError):  # closed while being read
        left = _MOST_REPLY_BYTES
        while left > 0 and (part := os.read(pipe.fileno(), min(left, 65536))):
            content.append(part)
            left -= len(part)
