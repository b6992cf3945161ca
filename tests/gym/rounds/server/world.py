"""A round on a server, asked by the standard library's HTTP alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.gym.rounds.protocol.people import LOG
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer
from zoo.gym.rounds.session.writing import create_round
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.http import open_storage


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


@dataclass
class World:
    server: CommunityLearningServer
    round: str
    storage: Storage

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        role: Role | None = Role.CONTRIBUTOR,
        **headers: str,
    ) -> Answer:
        """Sends a request with exactly this path, below the round unless it begins with `/`."""
        where = urlsplit(self.storage.address)
        if role is not None:
            headers.setdefault("Authorization", f"Bearer {self.server.tokens[role]}")
        connection = HTTPConnection(where.hostname or "", where.port, timeout=30)
        try:
            target = path if path.startswith("/") else f"{where.path}/{path}"
            connection.request(method, target, body, headers)
            found = connection.getresponse()
            return Answer(found.status, dict(found.headers), found.read())
        finally:
            connection.close()

    def files(self) -> dict[str, bytes]:
        """Everything that the server has."""
        top = self.server.config.folder
        return {str(p): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}

    @property
    def folder(self) -> Path:
        """Of the round, on the server."""
        return self.server.config.folder / self.storage.address.rpartition("/")[2]


@pytest.fixture
def world(server: CommunityLearningServer, address: str, manifest: Manifest) -> World:
    storage = open_storage(address)
    return World(server, create_round(storage, manifest, LOG), storage)
