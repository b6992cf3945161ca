"""Points follow what contributions gain: on contributors of known quality, and exactly."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.attacks.trial import contributions
from bench.digits.ladder import Ladder, make_ladder
from tests.gym.rounds.protocol.people import person
from zoo.gym.rounds.measure.losses import POINTS, values_of
from zoo.gym.rounds.payouts.points import capped_points, share_out

SEEDS = 12
"""Ranks of ten differ by .1 from seed to seed."""

KEYS = [person(f"contributor {number}").public for number in range(9)]


def values(ladder: Ladder, sent: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns what contributions are worth to their mean."""
    gradient = ladder.mean_gradient(sent.mean(axis=0), POINTS)
    shares = [1 / len(sent)] * len(sent)
    return np.array(values_of(gradient, contributions("float", sent), shares))


@pytest.fixture(scope="module")
def ladders() -> list[Ladder]:
    pytest.importorskip("sklearn", reason="its file of digits is read")
    return [make_ladder(seed) for seed in range(SEEDS)]


def ranks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.argsort(np.argsort(numbers)).astype(np.float64)


@pytest.mark.slow
def test_values_rank_by_labels_and_add_up_to_the_gain(
    ladders: list[Ladder],
) -> None:
    agreement: list[float] = []
    for ladder in ladders:
        found = values(ladder, ladder.sent)
        agreement.append(float(np.corrcoef(ranks(found), np.arange(10)[::-1])[0, 1]))
        assert found.sum() == pytest.approx(ladder.gain(ladder.sent.mean(axis=0)), rel=0.1)
    assert np.mean(agreement) >= 0.75


@pytest.mark.slow
def test_what_does_harm_or_nothing_earns_nothing(ladders: list[Ladder]) -> None:
    for ladder in ladders:
        negated, nothing = -ladder.sent[:2], np.zeros_like(ladder.sent[:1])
        found = values(ladder, np.concatenate([ladder.sent, negated, nothing]))
        points = share_out({str(row): float(value) for row, value in enumerate(found)}, 1000)
        assert [points[str(row)] for row in (10, 11, 12)] == [0, 0, 0]
        assert sum(points.values()) == 1000


@pytest.mark.slow
def test_unmerged_copies_earn_between_one_and_five_shares(
    ladders: list[Ladder],
) -> None:
    ratios: list[float] = []
    for ladder in ladders:
        alone = values(ladder, ladder.sent)
        noise = np.random.default_rng(0).standard_normal((4, ladder.sent.shape[1]))
        size = 0.35 * np.linalg.norm(ladder.sent[0]) / np.sqrt(ladder.sent.shape[1])
        copies = (ladder.sent[0] + size * noise).astype(np.float32)  # a cosine of .944
        found = values(ladder, np.concatenate([ladder.sent, copies]))
        share = [max(0.0, float(value)) for value in (*found[:1], *found[10:])]
        earned = sum(share) / np.maximum(found, 0).sum()
        ratios.append(float(earned / (max(0.0, alone[0]) / np.maximum(alone, 0).sum())))
    print(f"five that are no copies earn {np.mean(ratios):.2f} times as much as one")
    assert 1 < np.mean(ratios) < 5


@pytest.mark.nightly
def test_points_add_up_to_the_pool_in_a_hundred_thousand_cases() -> None:
    random = Random(0)
    for _ in range(100_000):
        count = random.randint(2, 9)
        worth = {key: Fraction(random.gauss(1, 2)) for key in KEYS[:count]}
        worth[KEYS[0]] = Fraction(random.random() + 1e-9)
        pool, new = random.randint(0, 10**6), set(KEYS[random.randint(1, count) : count])
        points = capped_points(worth, new, random.choice((0.05, 0.2, 1.0)), pool)
        assert sum(points.values()) == pool
        assert all(points[key] == 0 for key, value in worth.items() if value <= 0)
