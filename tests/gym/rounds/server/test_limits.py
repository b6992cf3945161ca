"""What one client can take of a server: time, connections, bytes; and what a full disk does."""

import errno
import os
import socket
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.codes import raises
from tests.gym.http_guard.toy import running
from tests.gym.rounds.protocol.people import LOG
from tests.gym.rounds.server.world import World
from zoo.core import digest
from zoo.gym.http_guard import connections
from zoo.gym.paths import storage_error
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.session.writing import create_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.http import open_storage

CHUNK = chunk_name(digest(b"some bytes"))


@pytest.fixture
def hasty(tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Generator[World]:
    """A server that waits 0.3 s for anything, and takes three connections."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    config = server_config(
        {"folder": tmp_path / "served", "port": 0, "request_s": 0.3, "concurrency": 3}
    )
    with running(CommunityLearningServer(None, config)) as server:
        storage = open_storage(f"{server.url}/rounds/summer")
        yield World(server, create_round(storage, manifest, LOG), storage)


def connected(world: World) -> socket.socket:
    where = urlsplit(world.server.url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=10)


def head(world: World, length: int) -> bytes:
    where = urlsplit(world.storage.address)
    lines = [f"PUT {where.path}/{CHUNK} HTTP/1.1", f"Host: {where.netloc}"]
    lines += [f"Authorization: Bearer {world.server.tokens[Role.CONTRIBUTOR]}"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


@pytest.mark.slow
def test_a_body_that_never_ends_is_refused(hasty: World) -> None:
    with connected(hasty) as connection:
        connection.sendall(head(hasty, 10) + b"some")
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert hasty.storage.size(CHUNK) is None


def test_a_body_without_a_length_has_the_same_limit(world: World) -> None:
    with connected(world) as connection:
        start = head(world, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        connection.sendall(start)
        piece = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        try:
            for _ in range(6):
                connection.sendall(piece)
        except OSError:
            pass  # closed, with or without the answer
        answer = connection.recv(1000) if not ended_early(connection) else b"HTTP/1.1 413 "
        assert answer.startswith(b"HTTP/1.1 413 ")
    assert world.storage.names("chunks") == []


def ended_early(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


@pytest.mark.slow
def test_more_connections_than_it_takes_are_sent_away_and_later_served(hasty: World) -> None:
    open_ = [connected(hasty) for _ in range(3)]
    with connected(hasty) as connection:
        connection.sendall(head(hasty, 0).replace(b"PUT", b"GET"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")
    hasty.storage.write(CHUNK, b"some bytes")  # waits, and tries again
    for connection in open_:
        connection.close()
    assert hasty.storage.read(CHUNK) == b"some bytes"


def test_a_full_disk_is_told_and_nothing_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: FolderStorage, name: str, content: bytes) -> None:
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise storage_error(error, self.folder / name) from error

    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, "replace", full)
        found = world.ask("PUT", CHUNK, b"some bytes", role=Role.MAKER)
        assert (found.status, found.message) == (507, "the server's disk is full")
        with raises("rounds.server_failed", "the server's disk is full"):
            world.storage.write(CHUNK, b"some bytes")
    assert world.storage.size(CHUNK) is None
    world.storage.write(CHUNK, b"some bytes")
