"""The learning rate that each optimizer has by default, with its reason."""

import pytest

from zoo.gym.config import TrainConfig
from zoo.gym.config.keys.optimizer import OPTIMIZERS
from zoo.gym.train.planning.rates import chosen_rate

PARAMETERS = 596_049_920


def rate(**settings: object) -> tuple[float, str]:
    given = {"model_name_or_path": "m", "dataset": "d.jsonl", **settings}
    return chosen_rate(TrainConfig.model_validate(given), PARAMETERS)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_adamws_rate_unless_its_steps_have_another_size(name: str) -> None:
    own = {"lion": 7.1e-05, "muon": 8.5e-04, "sgd": 0.5}
    found, reason = rate(optim=name)
    assert found == own.get(name, 2.1e-4)
    assert (name in reason) is (name in own)


def test_a_methods_share_is_taken_too() -> None:
    assert rate(optim="sgd", stage="dpo")[0] == 0.05
    assert rate(optim="lion", stage="dpo")[0] == 7.1e-06
