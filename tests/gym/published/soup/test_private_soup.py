"""Private soups: clipped, summed and drawn once; no user reads of another one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.published.soup.conftest import soup_of
from zoo.gym import DeltaSoup, DeltaSoupConfig, GymWarning
from zoo.gym.delta.file.reader import tensor_parts
from zoo.gym.rounds.privacy.ledger import all_spent


def private(base: Path, tuned: Callable[[int], Path], **settings: Any) -> DeltaSoup:
    return soup_of(base, tuned, 2, differential_privacy=True, **settings)[0]


@pytest.mark.filterwarnings("ignore:of no use")
def test_a_private_soup_says_nothing_of_what_another_user_gave(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup = private(base, tuned)
    soup.contribute("carol", tuned(2))
    assert len(soup.aggregate().report["contributions"]) == 3


def test_a_private_soup_is_clipped_summed_and_drawn_once(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    soup = private(base, tuned, privacy_epsilon=10.0)
    with pytest.warns(GymWarning, match="of no use: the noise is"):
        found = soup.aggregate()
    record = found.delta.header.privacy
    assert record is not None
    assert (record.epsilon, record.delta, record.contributors) == (10.0, 1e-5, 2)
    assert found.report["usable"] is False
    assert soup.aggregate() is found, "a second draw would spend again"
    assert [(one.contributor, one.draws) for one in all_spent()] == [
        ("user user 1", 1),
        ("user user 2", 1),
    ]
    with raises("published.drawn"):
        soup.contribute("late", tuned(5))
    assert sorted(soup.calculate_rewards().values()) == [500, 500]


@pytest.mark.slow
def test_the_noise_of_a_private_soup_is_that_of_its_promise(
    base: Path, tuned: Callable[[int], Path]
) -> None:
    """The norm of the noise stands out over contributions that are clipped to 1."""
    found: list[float] = []
    for _ in range(8):
        soup = private(base, tuned)
        with pytest.warns(GymWarning, match="of no use"):
            result = soup.aggregate()
        record = result.delta.header.privacy
        assert record is not None
        parts = [tensor_parts(result.delta, one) for one in result.delta.header.tensors]
        b = np.concatenate([part["B.values"].reshape(-1) for part in parts])
        found.append(float(np.std(b)) * 2 / (record.sigma * record.clip))
    assert 0.9 < float(np.mean(found)) < 1.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "krum"}, "method: expected byzantine_robust or mean with differential_privacy"),
        ({"use_bitdelta": True}, "use_bitdelta: expected false with differential_privacy"),
        ({"byzantine_threshold": 0.2}, "byzantine_threshold: expected none"),
        ({"quality_validator": len}, "quality_validator: expected none"),
        ({"privacy_delta": 0.01}, "privacy_delta: expected less than 1 / 1000"),
    ],
)
def test_what_a_private_soup_cannot_have_is_refused(settings: dict[str, Any], message: str) -> None:
    with raises("config.invalid", message):
        DeltaSoupConfig(differential_privacy=True, **settings)
