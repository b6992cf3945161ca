"""Every kind of storage, empty, for the tests of what they have in common."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.storage.address import open_storage
from zoo.gym.rounds.storage.base import Storage


@contextmanager
def running(server: CommunityLearningServer) -> Generator[CommunityLearningServer]:
    """Runs a server in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def done(act: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(act(), loop).result(30)

    try:
        done(server.start)
        yield server
        done(server.stop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[CommunityLearningServer]:
    """A server of this test alone, whose tokens are kept."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    config = server_config({"folder": tmp_path / "served", "port": 0})
    with running(CommunityLearningServer(None, config)) as started:
        yield started


@pytest.fixture(params=["folder", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage of each kind."""
    if request.param == "http":
        url = request.getfixturevalue("server").url
        return open_storage(f"{url}/rounds/summer")
    request.getfixturevalue("storage")  # a home
    return open_storage(str(tmp_path / "summer"))
