"""What contributors can fill of a server: the maker and other rounds keep their part."""

from pathlib import Path

import pytest

from tests.gym.rounds.protocol.people import ALICE, BOB, LOG, commit
from tests.gym.rounds.server.world import Answer, World
from tests.gym.rounds.storage.conftest import running
from zoo.core import digest
from zoo.gym.rounds.life.writing import close_phase, create_round, leave
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.server.gate import Role
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.opening import open_storage

MOST = 135_000
"""Bytes of contributors, of 150,000 in all."""


def put(world: World, number: int, role: Role = Role.CONTRIBUTOR, *, size: int = 90_000) -> Answer:
    """Stores bytes that are in no contribution."""
    content = bytes([number]) * size
    return world.ask("PUT", chunk_name(digest(content)), content, role=role)


def test_chunks_are_taken_when_commitments_are_closed_and_as_many_as_these_can_reveal(
    world: World,
) -> None:
    early = put(world, 0)
    assert (early.status, "got one in phase commit" in early.message) == (409, True)
    for who in (ALICE, BOB):
        leave(world.storage, commit(who, world.round, str(who.public)))
    assert close_phase(world.storage, LOG).phase is Phase.REVEAL
    # two files of at most 100,000 bytes
    assert [put(world, number).status for number in range(3)] == [201, 201, 507]
    assert put(world, 0).status == 204
    assert put(world, 3, Role.MAKER).status == 201


def test_contributors_cannot_fill_what_the_maker_needs(
    tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    config = server_config({"folder": tmp_path / "served", "port": 0, "most_bytes": 150_000})
    with running(CommunityLearningServer(None, config)) as server:
        storage = open_storage(f"{server.url}/rounds/summer")
        world = World(server, create_round(storage, manifest, LOG), storage)
        for who in (ALICE, BOB):
            leave(storage, commit(who, world.round, str(who.public)))
        close_phase(storage, LOG)
        assert put(world, 0).status == 201
        answers = (put(world, number, size=2000) for number in range(1, 256))
        found = next(answer for answer in answers if answer.status != 201)
        assert found.status == 507
        assert found.message == f"expected at most {MOST} bytes in all, got more"
        assert close_phase(storage, LOG).extended == {Phase.REVEAL}
