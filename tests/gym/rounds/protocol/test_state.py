"""What may follow what in the log of a round."""

from collections.abc import Sequence

import pytest

from tests.gym.rounds.protocol.people import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    FIELDS,
    LOG,
    NEWCOMERS,
    close,
    commit,
    digest_of,
    person,
    reveal,
)
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import round_id
from zoo.gym.rounds.protocol.objects import MANIFEST, body_of, encode
from zoo.gym.rounds.protocol.state import Phase, State, state_of
from zoo.gym.signing import Signed, sign


def after(*entries: Signed) -> State:
    return state_of([encode(entry) for entry in entries])


def whole(opening: Signed) -> list[Signed]:
    """Returns the entries of a round that ends well."""
    name = round_id(opening)
    result = body_of(name, digest=digest_of("result"), report=digest_of("report"))
    return [
        opening,
        commit(ALICE, name, "a"),
        commit(BOB, name, "b"),
        close(name, "commit"),
        reveal(ALICE, name, "a"),
        reveal(BOB, name, "b"),
        close(name, "reveal"),
        sign(LOG, objects.RESULT, result),
    ]


def test_a_round_goes_from_commitments_to_a_result(opening: Signed) -> None:
    entries = whole(opening)
    phases = [after(*entries[: number + 1]).phase for number in range(len(entries))]

    assert phases == ["commit"] * 3 + ["reveal"] * 3 + ["compute"] + ["published"]
    found = after(*entries)
    assert found.result == digest_of("result")
    assert set(found.accepted) == {ALICE.public, BOB.public}


def test_no_entry_may_be_left_out_or_repeated_or_come_earlier(opening: Signed) -> None:
    entries = whole(opening)
    for number in range(len(entries)):
        if number != len(entries) - 1:
            with pytest.raises(InputError):
                after(*entries[:number], *entries[number + 1 :])
        with pytest.raises(InputError):
            after(*entries[: number + 1], *entries[number:])


def refused(entries: Sequence[Signed], said: str) -> None:
    with pytest.raises(InputError, match=said):
        after(*entries)


def test_a_late_commitment_and_a_strange_key_do_not_count(opening: Signed) -> None:
    name, entries = round_id(opening), whole(opening)
    refused([*entries[:4], commit(CAROL, name, "c")], "expected in phase commit, got it in reveal")
    refused([*entries[:4], reveal(CAROL, name, "c")], "has not committed")
    refused([*entries[:3], close(name, "commit", who=ALICE)], "a key of role log")
    refused([*entries[:2], commit(ALICE, name, "other")], "has committed already")


def test_copied_commitment_cannot_be_revealed(opening: Signed) -> None:
    name = round_id(opening)
    first = commit(ALICE, name, "a")
    copied = sign(BOB, objects.COMMIT, dict(first.body))  # whose name in the inbox may sort first
    closed = [opening, copied, first, close(name, "commit")]

    assert set(after(*closed, reveal(ALICE, name, "a")).accepted) == {ALICE.public}
    refused([*closed, reveal(BOB, name, "a")], "expected the file of the commitment")


def test_a_reveal_that_differs_from_its_commitment_is_refused(opening: Signed) -> None:
    name, entries = round_id(opening), whole(opening)
    refused([*entries[:4], reveal(ALICE, name, "b")], "expected the file of the commitment")
    wrong = reveal(ALICE, name, "a", nonce=digest_of("another"))
    refused([*entries[:4], wrong], "expected the file of the commitment")
    refused([*entries[:4], reveal(ALICE, name, "a", bytes=10_001)], "at most 10000 bytes")
    refused([*entries[:4], reveal(ALICE, name, "a", size=1)], "got 'size' as well")
    refused([*entries[:4], reveal(ALICE, name, "a", bytes=True)], "reveal.bytes")


def test_more_contributors_than_allowed_are_refused(opening: Signed) -> None:
    name = round_id(opening)
    people = zip((ALICE, BOB, CAROL, DAVE), "abcd", strict=True)
    refused([opening, *(commit(who, name, one) for who, one in people)], "3 contributors at most")


def test_a_cap_on_newcomers_leaves_room_for_as_many_again() -> None:
    opening = sign(LOG, MANIFEST, {**FIELDS, "newcomers": NEWCOMERS})
    name = round_id(opening)
    seven = [commit(person(str(number)), name, "a") for number in range(7)]  # most is 3
    assert len(after(opening, *seven[:6]).commits) == 6
    refused([opening, *seven], "6 contributors at most")


def test_missed_quorum_extends_once_then_voids(opening: Signed) -> None:
    name = round_id(opening)
    one = [opening, commit(ALICE, name, "a")]
    missed = close(name, "commit", missed=True)

    refused([*one, close(name, "commit")], "1 of 2 contributors in phase commit say the opposite")
    extended = [*one, missed]
    assert after(*extended).phase is Phase.COMMIT
    assert after(*extended, commit(BOB, name, "b"), close(name, "commit")).phase is Phase.REVEAL
    refused([*extended, missed], "was extended once")
    assert after(*one).deadline == "2026-12-01T00:00:00Z"
    assert after(*extended).deadline == "2026-12-01T00:01:00Z"
    reveals = [*extended, commit(BOB, name, "b"), close(name, "commit")]
    assert after(*reveals).deadline == "2026-12-02T00:01:00Z"  # as long after commitments as agreed
    late = after(*reveals, close(name, "reveal", missed=True))
    assert late.deadline == "2026-12-02T00:02:00Z"
    void = sign(LOG, objects.VOID, body_of(name, reason="1 of 2 contributors"))
    assert after(*extended, void).reason == "1 of 2 contributors"


def test_refused_contribution_may_leave_too_few(opening: Signed) -> None:
    name, entries = round_id(opening), whole(opening)
    said = body_of(name, key=str(ALICE.public), reason="a scale that is not finite")
    refusal = sign(LOG, objects.REFUSAL, said)
    found = after(*entries[:7], refusal)

    assert found.accepted == (BOB.public,)
    refused([*entries[:7], refusal, entries[-1]], "expected 2 contributions, got 1")
    refused([*entries[:7], refusal, refusal], "was not refused")


def test_entries_of_another_round_are_refused(opening: Signed) -> None:
    refused([opening, commit(ALICE, digest_of("another"), "a")], "expected one of round")


def test_flipped_bit_of_an_entry_is_found_by_its_number(opening: Signed) -> None:
    entries = [encode(entry) for entry in whole(opening)[:3]]
    for at in range(0, len(entries[1]), 7):
        changed = bytearray(entries[1])
        changed[at] ^= 1
        with pytest.raises(InputError, match="log entry 1: "):
            state_of([entries[0], bytes(changed), entries[2]])
