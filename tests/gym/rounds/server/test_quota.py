"""What contributors can fill of a server: the maker and other rounds keep their part."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gym.http_guard.toy import running
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, GATE, LOG, commit, person, reveal
from tests.gym.rounds.server.world import Answer, World
from zoo.core import digest
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.server import limits
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.server.served import Served
from zoo.gym.rounds.session.opening import inbox_name
from zoo.gym.rounds.session.writing import close_phase, create_round, leave, take, void_round
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.http import open_storage
from zoo.gym.signing import OwnKey, Signed, sign

MOST = 135_000
"""Bytes of contributors, of 150,000 in all."""


def put(world: World, number: int, role: Role = Role.CONTRIBUTOR, *, size: int = 90_000) -> Answer:
    """Stores bytes that are in no contribution."""
    content = bytes([number]) * size
    return world.ask("PUT", chunk_name(digest(content)), content, role=role)


@pytest.mark.slow
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


@pytest.mark.slow
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


def ask(world: World, entry: Signed) -> Answer:
    content = objects.encode(entry)
    return world.ask("PUT", inbox_name(content), content)


def junk(world: World, who: OwnKey, number: int = 0, size: int = 0) -> Signed:
    body = objects.body_of(world.round, kind="shown", values={"i": f"{number}{'p' * size}"})
    return sign(who, objects.RECORD, body)


def void(world: World, who: OwnKey) -> Signed:
    return sign(who, objects.VOID, objects.body_of(world.round, reason="junk"))


def padded(world: World, who: OwnKey) -> Signed:
    entry = commit(who, world.round, "padded")
    return sign(who, objects.COMMIT, {**entry.body, "pad": "p" * 60_000})


NEVER: dict[str, tuple[Callable[[World], Signed], str]] = {
    "a record of no gate": (lambda world: junk(world, BOB), "a key of role gate"),
    "a word of the maker by another": (lambda world: void(world, BOB), "a key of role log"),
    "a second commitment": (lambda world: commit(ALICE, world.round, "other"), "in the inbox"),
    "a reveal without commitment": (lambda world: reveal(BOB, world.round, "bob"), "not committed"),
    "a commitment with more": (lambda world: padded(world, BOB), "got 'pad' as well"),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_the_log_can_never_take_is_refused_at_once(case: str, world: World) -> None:
    made, said = NEVER[case]
    first = commit(ALICE, world.round, "alice")
    assert ask(world, first).status == 201
    before = world.files()
    found = ask(world, made(world))
    assert (found.status, said in found.message) == (422, True)
    assert world.files() == before
    assert ask(world, first).status == 204


@pytest.mark.slow
def test_a_commitment_and_a_reveal_that_the_log_has_refuse_others_and_are_taken_again(
    world: World,
) -> None:
    for who in (ALICE, BOB):
        leave(world.storage, commit(who, world.round, "file"))
    close_phase(world.storage, LOG)
    assert ask(world, commit(CAROL, world.round, "late")).status == 422
    other = ask(world, reveal(ALICE, world.round, "another"))
    assert (other.status, "expected the file of the commitment" in other.message) == (422, True)
    shown = [commit(ALICE, world.round, "file"), reveal(ALICE, world.round, "file")]
    assert [ask(world, entry).status for entry in shown] == [204, 201]
    assert ask(world, reveal(ALICE, world.round, "file", examples=11)).status == 422
    take(world.storage, LOG)
    for path in (world.folder / "inbox").iterdir():
        path.unlink()
    assert [ask(world, entry).status for entry in shown] == [201, 201]


@pytest.mark.slow
def test_a_void_round_takes_no_entries(world: World) -> None:
    entry = commit(ALICE, world.round, "alice")
    leave(world.storage, entry)
    void_round(world.storage, LOG, "nobody came")
    found = ask(world, junk(world, GATE))
    assert (found.status, "got one that is void" in found.message) == (422, True)
    assert ask(world, entry).status == 204


@pytest.mark.slow
def test_entries_of_one_round_leave_room_for_those_of_others(
    tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(limits, "LEAST_COMMITS", 10)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    config = server_config({"folder": tmp_path / "served", "port": 0, "most_bytes": 150_000})
    few = manifest.model_copy(update={"most": 10})
    with running(CommunityLearningServer(None, config)) as server:

        def started(name: str) -> World:
            storage = open_storage(f"{server.url}/rounds/{name}")
            terms = few.model_copy(update={"name": name})
            return World(server, create_round(storage, terms, LOG), storage)

        flooded, other = started("flooded"), started("other")
        assert all(ask(flooded, junk(flooded, ALICE, n, 60_000)).status == 422 for n in range(3))
        people = (person(f"junk {number}") for number in range(200))
        answers = (ask(flooded, commit(who, flooded.round, "junk")) for who in people)
        full = next(answer for answer in answers if answer.status != 201)
        assert full.status == 507
        assert full.message == "inbox: expected at most 20480 bytes of round commit, got more"
        assert ask(other, commit(ALICE, other.round, "alice")).status == 201


def test_what_lay_in_the_inbox_counts_when_the_server_starts_again(world: World) -> None:
    leave(world.storage, commit(ALICE, world.round, "alice"))
    again = Served(world.server.config.folder, base=None, most_bytes=1 << 30)
    name = world.folder.name
    with pytest.raises(RefusedError, match="in the inbox, got another"):
        write(again, name, commit(ALICE, world.round, "other"))
    assert write(again, name, commit(ALICE, world.round, "alice")) is False
    assert write(again, name, commit(BOB, world.round, "bob")) is True


def write(served: Served, name: str, entry: Signed) -> bool:
    content = objects.encode(entry)
    return served.write(Role.CONTRIBUTOR, name, inbox_name(content), content)
