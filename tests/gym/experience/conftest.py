"""A server of the simulated world, files of its tasks, and commands with workers near by."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.chat_server import Body, ChatServer, Odd, chat_server
from tests.gym.cli.conftest import Call, call
from tests.gym.experience.causal import TRUE, World, tasks
from zoo.gym.jobs import Run, worker


@dataclass
class Served:
    """The world behind a server.

    Attributes:
        server: the server.
        world: the world.
        odd: what is answered instead: gets the request and its number.
    """

    server: ChatServer
    world: World
    odd: Callable[[Body, int], Odd | None] = field(default=lambda _, __: None)

    @property
    def model(self) -> str:
        """The id of its model."""
        return f"{self.server.url}#world"


@pytest.fixture
def served() -> Iterator[Served]:
    """A server of the causal world."""
    world = World()

    def respond(body: Body, number: int) -> "str | Odd":
        found = holder[0].odd(body, number)
        return world.answer(body["messages"], body.get("seed", 0)) if found is None else found

    holder: list[Served] = []
    with chat_server(respond) as server:
        holder.append(Served(server, world))
        yield holder[0]


def write_tasks(path: Path, count: int, first: int = 0) -> Path:
    """Writes tasks of the world as rows."""
    rows = [
        {"prompt": one.messages[-1].content, "answer": f"used strategy-{one.answer}"}
        for one in tasks(count, first)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ignore(_: object) -> None:
    """Does nothing."""


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `experience train` and `runs resume` run their worker in this process."""

    def launch(run: Run, *, entry: None = None, prepare: Any = None, wait_s: float = 0) -> int:
        del entry, wait_s
        if prepare is not None:
            prepare()
        with run.worker_log.open("a") as log, redirect_stderr(log):
            return worker.main([str(run.folder)])

    monkeypatch.setattr(worker, "stop_on_signals", ignore)
    monkeypatch.setattr("zoo.gym.cli.experience.launch", launch)
    monkeypatch.setattr("zoo.gym.cli.distill.launch", launch)
    monkeypatch.setattr("zoo.gym.jobs.actions.launch", launch)
    monkeypatch.setattr(sys, "stdin", StringIO())


KEYRING = """
import os
from keyring import errors

def get_password(service_name, username):
    if fault := os.environ.get("FAKE_KEYRING_FAULT"):
        raise getattr(errors, fault)(os.environ["FAKE_KEYRING"])
    wanted = os.environ["FAKE_KEYRING_KEY"]
    return os.environ["FAKE_KEYRING"] if (service_name, username) == ("zoo-gym", wanted) else None
"""

KEYRING_ERRORS = """
class KeyringError(Exception): ...
class KeyringLocked(KeyringError): ...
class NoKeyringError(KeyringError, RuntimeError): ...
"""


@pytest.fixture
def keyring(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], None]]:
    """Installs a stand-in for the package keyring; what is returned puts a key into it."""
    package = tmp_path_factory.mktemp("site") / "keyring"
    package.mkdir()
    (package / "__init__.py").write_text(KEYRING)
    (package / "errors.py").write_text(KEYRING_ERRORS)

    def keep(variable: str, key: str) -> None:
        monkeypatch.setenv("FAKE_KEYRING_KEY", variable)
        monkeypatch.setenv("FAKE_KEYRING", key)

    known: dict[str, ModuleType] = {
        name: sys.modules.pop(name) for name in ("keyring", "keyring.errors") if name in sys.modules
    }
    monkeypatch.syspath_prepend(package.parent)
    keep("NONE", "")
    yield keep
    for name in ("keyring", "keyring.errors"):
        sys.modules.pop(name, None)
    sys.modules.update(known)


__all__ = ["TRUE", "Call", "call"]
