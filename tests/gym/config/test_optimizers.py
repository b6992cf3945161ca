"""The keys of optimizers: their names, and what becomes of them in the engine's specification."""

import pytest

from zoo.gym import InputError, TrainConfig
from zoo.gym.config import load_config
from zoo.gym.config.keys.optimizer import OPTIMIZERS
from zoo.gym.train.loading import load_spec

NEEDED = ["model_name_or_path=m", "dataset=d"]


def loaded(*items: str) -> TrainConfig:
    return load_config([], [*NEEDED, *items], {}).config


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizer_that_is_named_is_the_one_of_the_engine(name: str) -> None:
    assert load_spec(loaded(f"optim={name}")).optimizer.name == name


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("adamw_torch", "adamw"), ("adamw_torch_fused", "adamw"), ("lion_32bit", "lion")],
)
def test_the_names_of_other_trainers_mean_the_same_optimizer(theirs: str, ours: str) -> None:
    assert loaded(f"optim={theirs}") == loaded(f"optim={ours}")
    assert TrainConfig(model_name_or_path="m", dataset="d", optim=theirs).optim == ours


@pytest.mark.parametrize("name", ["adam", "adagrad", "lion_8bit", "adamw_apex_fused"])
def test_an_optimizer_that_is_not_here_is_refused_by_name(name: str) -> None:
    expected = f"optim={name}: expected 'adamw', .*, got \"{name}\""
    with pytest.raises(InputError, match=expected):
        loaded(f"optim={name}")
