"""Newcomers have a share of seats, weight and points, however many keys they make."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from tests.gym.rounds.protocol.people import digest_of, person
from zoo.gym.rounds.payouts.points import capped_points, capped_weights, drawn, seats_of
from zoo.gym.rounds.payouts.reputation import (
    Reputation,
    established,
    read_standings,
    standings_after,
    write_standings,
)
from zoo.gym.signing import PublicKey

PEOPLE = [person(f"member {number}").public for number in range(40)]
OLD, NEW = PEOPLE[:8], PEOPLE[8:]
WORTH = st.lists(st.floats(0, 1e3), min_size=12, max_size=12)


def test_newcomers_have_a_fifth_of_the_seats() -> None:
    # 2 of 8 + 2, 1 of 4 + 1, 0 of 3
    assert [seats_of(established, 0.2) for established in (8, 4, 3, 0)] == [2, 1, 0, 0]
    assert seats_of(3, 1.0) is None


def test_the_lot_depends_on_commitments_and_nonce_alone() -> None:
    commitments, nonce = [digest_of("a"), digest_of("b")], digest_of("nonce")
    found = drawn(NEW, 3, commitments, nonce)
    assert drawn(NEW[::-1], 3, commitments, nonce) == found
    others = [
        drawn(NEW, 3, commitments[::-1], nonce),
        drawn(NEW, 3, commitments, digest_of("another")),
    ]
    assert all(other != found for other in others)


def test_every_newcomer_is_drawn_about_as_often() -> None:
    counts = dict.fromkeys(NEW[:8], 0)
    for number in range(800):
        for key in drawn(counts, 2, [digest_of(str(number))], digest_of("nonce")):
            counts[key] += 1
    assert all(140 < count < 260 for count in counts.values())  # 200, four deviations of 12


@pytest.mark.slow
@given(WORTH, st.floats(0.01, 0.99))
def test_newcomers_never_weigh_more_than_their_share(worth: list[float], share: float) -> None:
    weights = dict(zip(PEOPLE[:12], worth, strict=True))
    found = capped_weights(weights, PEOPLE[8:12], share)
    assert all(found[key] == Fraction(weights[key]) for key in OLD)
    new = sum(found[key] for key in PEOPLE[8:12])
    assert new <= Fraction(str(share)) * sum(found.values())


@pytest.mark.slow
@given(WORTH, st.floats(0.01, 1), st.integers(0, 10**6))
def test_newcomers_never_earn_more_than_their_share(
    worth: list[float], share: float, pool: int
) -> None:
    values = {key: Fraction(one) for key, one in zip(PEOPLE[:12], worth, strict=True)}
    found = capped_points(values, set(PEOPLE[8:12]), share, pool)
    assert sum(found[key] for key in PEOPLE[8:12]) <= Fraction(str(share)) * pool
    if any(values[key] for key in OLD):
        assert sum(found.values()) == pool


@pytest.mark.slow
@pytest.mark.parametrize("keys_a_round", [1, 30])
def test_fresh_keys_earn_a_fifth_at_most_over_fifty_rounds(keys_a_round: int) -> None:
    standings: dict[PublicKey, Reputation] = {key: Reputation(0.5, 3) for key in OLD}
    earned, pool = 0, 1000
    for number in range(50):
        fresh = [person(f"sybil {number} {i}").public for i in range(keys_a_round)]
        new = [key for key in fresh if standings.get(key, Reputation()).accepted < 3]
        seated = drawn(new, seats_of(len(OLD), 0.2) or 0, [digest_of(str(number))], digest_of("n"))
        values = {key: Fraction(1) for key in OLD} | {key: Fraction(100) for key in seated}
        points = capped_points(values, set(seated), 0.2, pool)
        earned += sum(points[key] for key in seated)
        left = [key for key in new if key not in seated]
        after = standings_after(
            standings, dict.fromkeys((*OLD, *seated), 1.0), refused=(), unchanged=left
        )
        standings = dict(after)
    assert earned <= 0.2 * 50 * pool


def test_standings_are_read_as_they_were_written_and_go_on() -> None:
    alice, bob, carol, dave, eve = PEOPLE[:5]
    before = {alice: Reputation(0.5, 2), bob: Reputation(0.5, 4), carol: Reputation(0.5, 1)}
    after = standings_after(before, {alice: 1.0}, refused=[bob, dave], unchanged=[eve])
    assert after == {
        alice: Reputation(0.55, 3),  # .5 + .1 * .5
        bob: Reputation(0.0, 4),
        carol: Reputation(0.475, 1),  # absent: .5 * .95
        dave: Reputation(0.0, 0),
        eve: Reputation(0.0, 0),
    }
    assert read_standings(write_standings(after)) == after


def test_a_key_that_was_only_ever_refused_is_a_newcomer() -> None:
    refused, good = PEOPLE[:2]
    after = standings_after({}, {good: 1.0}, refused=[refused], unchanged=[])
    assert established(after, 1) == {good}


@pytest.mark.parametrize("value", [1e30, 1.0000001, -3.0, -1e-9])
def test_a_reputation_outside_of_0_to_1_is_refused(value: float) -> None:
    content = write_standings({OLD[0]: Reputation(value, 3)})
    with raises("rounds.bad_standings", f"a reputation of 0 to 1 for {OLD[0].fingerprint}, got"):
        read_standings(content)


def test_negative_rounds_and_huge_numbers_are_refused() -> None:
    with raises("rounds.bad_standings", "expected accepted rounds, 0 or more"):
        read_standings(write_standings({OLD[0]: Reputation(0.5, -1)}))
    for number in (b"1" + b"0" * 400, b"1e999"):
        content = write_standings({OLD[0]: Reputation(0.25, 3)}).replace(b"0.25", number)
        with raises("rounds.bad_standings", "standings: expected"):
            read_standings(content)


def test_the_edges_of_reputation_are_read() -> None:
    known = {OLD[0]: Reputation(0.0, 0), OLD[1]: Reputation(1.0, 9)}
    assert read_standings(write_standings(known)) == known
