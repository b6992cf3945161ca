"""However many new keys commit, those that the standings know find room."""

import pytest

from tests.gym.rounds.protocol.people import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    LOG,
    NEWCOMERS,
    commit,
    digest_of,
    person,
)
from zoo.core import digest
from zoo.gym.rounds.payouts.reputation import Reputation, write_standings
from zoo.gym.rounds.protocol.manifest import Manifest, Newcomers
from zoo.gym.rounds.session.newcomers import new_nonce
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import create_round, leave, take
from zoo.gym.rounds.storage.base import FolderStorage

KNOWN = (ALICE, BOB, CAROL)


@pytest.fixture
def capped(storage: FolderStorage, manifest: Manifest) -> str:
    """A round for three, with standings that know three; returns its id."""
    content = write_standings({who.public: Reputation(0.5, 3) for who in (*KNOWN, DAVE)})
    given = {**NEWCOMERS, "standings": digest(content), "nonce": new_nonce()}
    terms = manifest.model_copy(update={"newcomers": Newcomers.model_validate(given)})
    return create_round(storage, terms, LOG, content)


def test_new_keys_take_no_seat_of_known_ones(storage: FolderStorage, capped: str) -> None:
    for number in range(5):
        leave(storage, commit(person(f"new {number}"), capped, str(number)))
    taken = take(storage, LOG)
    assert len(taken.added) == 3
    assert [why for _, why in taken.refused] == ["commit: the round takes 3 newcomers at most"] * 2

    for who in KNOWN:
        leave(storage, commit(who, capped, str(who.public)))
    assert len(take(storage, LOG).added) == 3
    assert {who.public for who in KNOWN} < open_round(storage).state.commits.keys()


def test_known_keys_have_no_more_seats_than_the_round(storage: FolderStorage, capped: str) -> None:
    for who in (*KNOWN, DAVE):
        leave(storage, commit(who, capped, digest_of(str(who.public))))
    (refused,) = take(storage, LOG).refused
    assert refused[1] == "commit: the round takes 3 contributors who are not new at most"
