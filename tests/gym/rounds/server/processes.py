"""Processes of the real program: a server that can be killed and started again, and commands."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "zoo.gym"]
LATEST_S = 120.0
"""The longest that a loaded machine takes to start a process."""


def environment(home: Path) -> dict[str, str]:
    """Returns the environment of somebody with a home of their own, in this tree."""
    quiet = {"HF_HUB_OFFLINE": "1", "ZOO_GYM_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return os.environ | quiet | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class ServerProcess:
    """`zoo-gym round serve` in a process of its own.

    Args:
        top: has its home, its log and the folder of the rounds.
        limit: a limit of the shell's `ulimit` to start it under, as `-f 1024`.
    """

    def __init__(self, top: Path, limit: str = "") -> None:
        self.home, self.folder, self._out = top / "home", top / "served", top / "serve.out"
        self._log, self._limit = top / "serve.log", limit
        self.port, self.url = 0, ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it at the port that it had, and returns when it listens."""
        words = [*PROGRAM, "round", "serve", str(self.folder), "--port", str(self.port), "--json"]
        if self._limit:
            words = ["sh", "-c", f'ulimit {self._limit}; exec "$@"', "sh", *words]
        with self._out.open("wb") as out, self._log.open("ab") as log:
            self.process = subprocess.Popen(
                words, stdout=out, stderr=log, env=environment(self.home)
            )
        self.url = str(self._listening()["url"])
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """Ends it at once, as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _listening(self) -> Mapping[str, Any]:
        assert self.process is not None
        deadline = time.monotonic() + LATEST_S
        while time.monotonic() < deadline:
            text = self._out.read_text()
            if text.endswith("\n"):
                found: Mapping[str, Any] = json.loads(text)
                return found
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.02)
        raise TimeoutError(self._log.read_text())

    def token(self, role: str) -> str:
        """Returns the token of a role, from its file."""
        [path] = (self.home / "data" / "rounds" / "tokens").glob(f"*/{role}.txt")
        return path.read_text().strip()


@contextmanager
def serving(top: Path, limit: str = "") -> Generator[ServerProcess]:
    """Runs a server, and ends it in any case."""
    server = ServerProcess(top, limit)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def command(home: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own."""
    return subprocess.run(
        [*PROGRAM, *words],
        env=environment(home),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=LATEST_S,
    )
