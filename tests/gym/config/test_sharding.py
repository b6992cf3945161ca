"""The key `sharding`: what it makes of the loading, and what it cannot be combined with."""

import pytest

from tests.codes import raises
from tests.gym.config.test_optimizers import loaded
from zoo.gym import TrainConfig
from zoo.gym.config.conflicts import require_processes
from zoo.gym.published.api import train_here
from zoo.gym.train.loading import load_spec


def test_a_model_is_divided_if_that_is_set() -> None:
    assert load_spec(loaded("sharding=full", "num_processes=2")).sharded
    assert not load_spec(loaded("num_processes=2")).sharded


def test_one_process_has_nobody_to_share_with() -> None:
    require_processes(loaded("sharding=full", "num_processes=2"))
    require_processes(loaded())
    with raises("config.one_process", "sharding: expected none with one process, got full"):
        require_processes(loaded("sharding=full"))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("optim=adafactor", "adafactor needs whole matrices: expected adamw, lion, sgd"),
        ("quantization_bit=4", "cannot be with sharding full"),
        ("stream_layers=true", "cannot be with sharding full"),
        ("enable_liger_kernel=true", "cannot be with sharding full"),
        ("activation_offloading=true", "cannot be with sharding full"),
    ],
)
def test_what_a_divided_model_cannot_have_is_refused(other: str, message: str) -> None:
    with raises("config.invalid", f"{other}: {message}"):
        loaded("sharding=full", "num_processes=2", other)


@pytest.mark.parametrize("key", ["fsdp=full_shard", "fsdp_config=f.json", "deepspeed=z2.json"])
def test_the_keys_of_other_trainers_lead_to_sharding(key: str) -> None:
    with raises("config.invalid", "expected sharding full with num_processes"):
        loaded(key)


def test_python_is_refused_before_there_is_a_run() -> None:
    config = TrainConfig(
        model_name_or_path="zen-pico", dataset=[{"text": "a"}], stage="sft", sharding="full"
    )
    with raises("config.one_process"):
        train_here(config)
