"""The learning rate that each optimizer has by default, with its reason."""

import pytest

from zoo.backends.optimizer_spec import OPTIMIZERS
from zoo.gym.config import TrainConfig
from zoo.gym.config.keys.optimizer import ONLY_IN_PLACE
from zoo.gym.train.plan import Facts, make_plan
from zoo.gym.train.rates import chosen_rate

PARAMETERS = 596_049_920


def rate(**settings: object) -> tuple[float, str]:
    given = {"model_name_or_path": "m", "dataset": "d.jsonl", **settings}
    return chosen_rate(TrainConfig.model_validate(given), PARAMETERS)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_adamws_rate_unless_its_steps_have_another_size(name: str) -> None:
    own = {"lion": 7.1e-05, "muon": 8.5e-04, "sgd": 0.5}
    in_place = name in ONLY_IN_PLACE
    found, reason = rate(optim=name, finetuning_type="full" if in_place else "lora")
    assert found == own.get(name, 2.3e-05 if in_place else 2.1e-4)
    assert (name in reason) is (name in own)


def test_a_methods_share_is_taken_too() -> None:
    assert rate(optim="sgd", stage="dpo")[0] == 0.05
    assert rate(optim="lion", stage="dpo")[0] == 7.1e-06


def test_the_rate_of_both_factors_is_that_of_lora_on_geometric_average() -> None:
    # 2.1e-4 / sqrt(16), and 16 times that
    found, reason = rate(loraplus_lr_ratio=16)
    assert found == 5.3e-05
    assert "loraplus_lr_ratio" in reason


def test_badam_trains_each_layer_for_at_most_50_steps_and_says_if_some_have_no_turn() -> None:
    facts = Facts(PARAMETERS, 900, 27_000, 40, 100, 3_000, layers=28)
    given = {"model_name_or_path": "m", "dataset": "d.jsonl"}
    given |= {"optim": "badam", "finetuning_type": "full"}

    def turns(**more: object) -> tuple[int | None, list[int]]:
        plan = make_plan(TrainConfig.model_validate(given | more), facts)
        said = [choice.value for choice in plan.choices if choice.key == "badam_layers"]
        return plan.config.badam_switch_interval, said

    assert turns(max_steps=10_000) == (50, [])
    assert turns(max_steps=100) == (3, [])
    assert turns(max_steps=20) == (1, [20])
    assert turns(max_steps=100, badam_switch_interval=50) == (50, [2])
    assert turns(max_steps=20, badam_switch_mode="fixed") == (None, [])


def test_wsd_falls_in_the_last_tenth_unless_another_share_is_given() -> None:
    facts = Facts(PARAMETERS, 900, 27_000, 40, 100, 3_000)
    given = {"model_name_or_path": "m", "dataset": "d.jsonl", "lr_scheduler_type": "wsd"}
    for more, share in (({}, 0.1), ({"decay_ratio": 0.25}, 0.25)):
        plan = make_plan(TrainConfig.model_validate(given | more), facts)
        assert plan.config.decay_ratio == share
