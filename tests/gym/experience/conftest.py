"""A server of the simulated world, files of its tasks, and commands with workers near by."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
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


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `experience train` and `runs resume` run their worker in this process."""

    def launch(run: Run, *, entry: str, before: Any = None, wait_s: float = 0) -> int:
        if before is not None:
            before()
        with run.worker_log.open("a") as log, redirect_stderr(log):
            return worker.main([str(run.folder), "--entry", entry])

    monkeypatch.setattr(worker, "stop_on_signals", lambda _: None)
    monkeypatch.setattr("zoo.gym.cli.experience.launch", launch)
    monkeypatch.setattr("zoo.gym.cli.distill.launch", launch)
    monkeypatch.setattr("zoo.gym.jobs.actions.launch", launch)
    monkeypatch.setattr(sys, "stdin", StringIO())


__all__ = ["TRUE", "Call", "call"]
