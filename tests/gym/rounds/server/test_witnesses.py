"""Notes of witnesses on a server: those of the round's witnesses, about its log, ever later."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.gym.rounds.protocol.people import ALICE, BOB, DAVE, LOG
from tests.gym.rounds.server.world import World
from zoo.gym.rounds.log.reader import Head, signed_note
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, RoundKey
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer
from zoo.gym.rounds.session.opening import note_key, open_round, witness, witness_name
from zoo.gym.rounds.session.writing import create_round, leave, take
from zoo.gym.rounds.storage.http import open_storage
from zoo.gym.signing import OwnKey, sign
from zoo.gym.signing.keys import sign_bytes


@pytest.fixture
def watched(server: CommunityLearningServer, address: str, manifest: Manifest) -> World:
    """A round that names Dave as its witness, with a commitment that he has signed."""
    key = RoundKey(role="witness", key=str(DAVE.public), expires=manifest.keys[0].expires)
    storage = open_storage(address)
    named = manifest.model_copy(update={"keys": (*manifest.keys, key)})
    world = World(server, create_round(storage, named, LOG), storage)
    commit(world, ALICE)
    witness(open_round(storage), DAVE)
    return world


def commit(world: World, who: OwnKey) -> None:
    body = objects.body_of(world.round, commitment=who.public.raw.hex())
    leave(world.storage, sign(who, objects.COMMIT, body))
    take(world.storage, LOG)


def note(world: World, head: Head, who: OwnKey = DAVE) -> bytes:
    """Returns a note that the log's key has signed, too."""
    return noted(world, head, who, LOG)


def noted(world: World, head: Head, *signers: OwnKey) -> bytes:
    text = head.text().encode()
    keys = {note_key(world.round, one.public): sign_bytes(one.private, text) for one in signers}
    return signed_note(head, keys)


@pytest.mark.slow
def test_a_note_that_the_log_did_not_sign_is_refused(watched: World) -> None:
    commit(watched, BOB)
    content = noted(watched, open_round(watched.storage).head, DAVE)
    found = watched.ask("PUT", witness_name(DAVE.public), content)
    assert (found.status, "a signature of the log's key, got none" in found.message) == (422, True)


@pytest.mark.slow
def test_a_note_in_the_folder_that_proves_nothing_may_be_replaced(watched: World) -> None:
    head = open_round(watched.storage).head
    (watched.folder / witness_name(DAVE.public)).write_bytes(noted(watched, head, DAVE))
    found = watched.ask("PUT", witness_name(DAVE.public), note(watched, head))
    assert found.status == 201


@pytest.mark.slow
def test_a_witness_signs_what_has_grown(watched: World) -> None:
    commit(watched, BOB)
    head = open_round(watched.storage).head
    found = watched.ask("PUT", witness_name(DAVE.public), note(watched, head))
    assert found.status == 201
    assert open_round(watched.storage).witnesses == {DAVE.public: 3}


REFUSED: dict[str, tuple[Callable[[Head], Head], OwnKey, int]] = {
    "a later head than the log has": (lambda head: Head(head.origin, 9, head.root), DAVE, 409),
    "an earlier head": (lambda head: Head(head.origin, 1, head.root), DAVE, 409),
    "another root": (lambda head: Head(head.origin, 2, bytes(32)), DAVE, 409),
    "another log": (lambda head: Head("zoo-gym round x", 2, head.root), DAVE, 422),
    "another key": (lambda head: head, BOB, 403),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_other_notes_are_refused(case: str, watched: World) -> None:
    change, who, status = REFUSED[case]
    name = witness_name(who.public)
    content = note(watched, change(open_round(watched.storage).head), who)
    before: dict[str, Any] = watched.files()
    assert watched.ask("PUT", name, content, role=Role.CONTRIBUTOR).status == status
    assert watched.files() == before
