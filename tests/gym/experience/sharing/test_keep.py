"""The rule: enough trusted keys, a median above 0, none clearly below."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.experience.library.item import Item
from zoo.gym.experience.sharing.keep import Judged, judge, lower_end
from zoo.gym.experience.sharing.measurement import Measurement
from zoo.gym.signing import PublicKey

ITEM = Item("Check the units.")
KEYS = [PublicKey(bytes([n]) * 32) for n in range(5)]
NAMES = dict(zip(KEYS, "abcd", strict=False))
"""All but the last are trusted."""


def record(effect: float, low: float = -0.5, high: float = 0.5, tasks: int = 20) -> Measurement:
    return Measurement(ITEM.text, "m", tasks, effect, low, high)


def judged(*records: tuple[int, Measurement], least: int = 2, item: Item = ITEM) -> Judged:
    [found] = judge([item], [(KEYS[n], one) for n, one in records], NAMES, least)
    return found


def test_a_lesson_good_for_enough_keys_is_kept_with_evidence() -> None:
    found = judged((0, record(0.1)), (1, record(0.3)), (2, record(-0.1)))
    assert (found.kept, found.effect, found.signers) == (True, 0.1, ("a", "b", "c"))
    # a side of 1 / 3.92 = 0.255: 0.1 - 1.645 * 1.2533 * 0.255 / sqrt(3) = -0.2036
    assert found.item.evidence == pytest.approx(
        {"keys": 3, "least_keys": 2, "effect": 0.1, "low": -0.2036}, abs=1e-3
    )
    assert not found.item.is_foreign


def test_keys_that_are_not_trusted_count_for_nothing() -> None:
    found = judged((0, record(0.1)), (4, record(0.9)))
    assert found.why == "measured by 1 of at least 2 keys"
    assert judged((0, record(0.1)), (1, record(0.1)), (4, record(-0.9, -1, -0.8))).kept


def test_a_key_counts_once_however_often_it_signs() -> None:
    many = [(0, record(0.1 * n)) for n in range(1, 6)]
    assert judged(*many).why == "measured by 1 of at least 2 keys"


def test_the_record_of_most_tasks_of_a_key_counts() -> None:
    found = judged((0, record(0.9, tasks=10)), (0, record(0.1, tasks=20)), (1, record(0.1)))
    assert found.effect == 0.1
    found = judged((0, record(0.9)), (0, record(0.1)), (1, record(0.1)))
    assert found.effect == 0.1


@pytest.mark.parametrize("effects", [(0.0, 0.0), (0.2, -0.2), (0.5, -0.1, -0.1)])
def test_a_median_that_is_not_above_0_is_not_enough(effects: tuple[float, ...]) -> None:
    found = judged(*((n, record(effect)) for n, effect in enumerate(effects)))
    assert found.why.startswith("a median effect of")


def test_one_clear_harm_excludes_a_lesson() -> None:
    good = [(n, record(0.4)) for n in range(3)]
    harm = record(-0.2, -0.4, -0.01, tasks=6)
    assert judged(*good, (3, harm)).why == "harmful by the measurement of d"
    assert judged(*good, (0, harm)).why == "harmful by the measurement of a"
    assert judged(*good, (3, replace(harm, high=0.0))).kept


def test_a_gain_is_clear_by_all_measurements_together() -> None:
    # sides of 0.2 / 3.92 = 0.051 each: alone 0.065 - 0.084 < 0, three together 0.065 - 0.061 > 0
    records = [(KEYS[n], record(0.065, -0.035, 0.165)) for n in range(3)]
    one = judge([ITEM], records[:1], NAMES, 1, clear=True)[0]
    assert one.why == "no clear gain by all measurements together"
    assert one.low == pytest.approx(0.065 - 0.0839, abs=1e-4)
    all_three = judge([ITEM], records, NAMES, 1, clear=True)[0]
    assert all_three.kept
    assert all_three.low == pytest.approx(0.065 - 0.0607, abs=1e-4)
    assert judge([ITEM], records[:1], NAMES, 1)[0].kept


def test_an_interval_without_width_is_no_certainty() -> None:
    # of 20 tasks: as one of 3 / 20; 0.1 - 1.645 * 0.15 / 3.92 = 0.037
    assert lower_end([record(0.1, 0.1, 0.1)]) == pytest.approx(0.037, abs=1e-3)
    assert lower_end([]) is None


LIE = record(1.0, 1.0, 1.0, tasks=10**9)


@pytest.mark.parametrize("honest", [(0.0,), (0.0, 0.0), (0.01, 0.0, -0.01)])
def test_a_lying_minority_keeps_no_useless_lesson(
    honest: tuple[float, ...],
) -> None:
    records = [(n, record(effect)) for n, effect in enumerate(honest)]
    found = judged(*records, (3, LIE))
    assert (found.kept, found.effect) == (False, 0.0)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), min_size=2, max_size=3))
def test_a_lying_minority_raises_no_figure_above_honest_ones(
    honest: list[tuple[float, float]],
) -> None:
    records = [(n, record(one, one - side, one + side)) for n, (one, side) in enumerate(honest)]
    found = judged(*records, (3, LIE))
    assert found.effect is not None
    assert found.low is not None
    assert found.effect <= max(one for one, _ in honest) + 1e-6
    assert found.low <= found.effect


def test_no_weight_lets_a_narrow_interval_pass_for_a_clear_gain() -> None:
    records = [(KEYS[n], record(0.01, -0.14, 0.16)) for n in range(3)]
    [found] = judge([ITEM], [*records, (KEYS[3], LIE)], NAMES, 2, clear=True)
    assert found.why == "no clear gain by all measurements together"


def test_a_record_of_another_lesson_says_nothing() -> None:
    other = replace(record(0.5), text="Check the sign.")
    assert judged((0, other), (1, other)).why == "measured by 0 of at least 2 keys"


def test_an_order_is_not_kept_unless_released() -> None:
    item = Item("Use the shell.")
    one = replace(record(0.5), text=item.text)
    records = [(KEYS[0], one), (KEYS[1], one)]
    assert judge([item], records, NAMES, 2)[0].why == "in quarantine: it has an order to a tool"
    assert judge([item], records, NAMES, 2, [item.id])[0].kept


def test_the_order_of_the_records_decides_nothing() -> None:
    rng = random.Random(1)
    for _ in range(50):
        records = [
            (rng.choice(KEYS), record(rng.choice([-0.1, 0.0, 0.1]), tasks=rng.choice([6, 7])))
            for _ in range(6)
        ]
        first = judge([ITEM], records, NAMES, 2)
        rng.shuffle(records)
        assert judge([ITEM], records, NAMES, 2) == first
