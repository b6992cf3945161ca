"""A Postgres server of its own, for the tests of queues."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@dataclass(frozen=True)
class Server:
    """A server that answers on a socket in its folder, and does not run as root."""

    folder: Path
    programs: Path
    user: str | None

    @property
    def address(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def run(self, program: str, *words: str) -> None:
        subprocess.run(
            [self.programs / program, *words],
            user=self.user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )

    def start(self) -> None:
        settings = f"-c listen_addresses='' -k {self.folder}"
        data = str(self.folder / "data")
        self.run(
            "pg_ctl", "-D", data, "-o", settings, "-l", str(self.folder / "log"), "-w", "start"
        )

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")

    def _control(self, *words: str) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", *words)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    if not _INSTALLED:
        pytest.skip("no Postgres: apt-get install postgresql")
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="zoo-gym-postgres-"))
    if user:
        shutil.chown(folder, user)
    server = Server(folder, _INSTALLED[-1], user)
    server.run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-N")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)
