"""The published setting `distributed` means ours, or is refused by the part that is not here."""

import pytest

from tests.codes import raises
from zoo.gym.config import load_config

GIVEN = ["model=zen-pico", "dataset=d.jsonl", "num_processes=2"]


@pytest.mark.parametrize(
    ("parts", "sharding", "dtype"),
    [
        ("strategy: fsdp, sharding_strategy: full_shard, mixed_precision: bf16", "full", "bf16"),
        ("strategy: fsdp", "full", "auto"),
        ("strategy: fsdp, sharding_strategy: no_shard", "none", "auto"),
        ("strategy: ddp, mixed_precision: no", "none", "f32"),
    ],
)
def test_its_parts_are_settings_of_ours(parts: str, sharding: str, dtype: str) -> None:
    found = load_config([], [*GIVEN, f"distributed={{{parts}}}"], {}).config
    assert (found.sharding, found.dtype) == (sharding, dtype)


def test_the_device_determines_the_backend() -> None:
    found = load_config([], [*GIVEN, "distributed={backend: nccl, strategy: fsdp}"], {})
    assert [one.key for one in found.ignored] == ["distributed: backend"]
    assert load_config([], [*GIVEN, "distributed=null"], {}).ignored[0].reason == "switched off"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("strategy: deepspeed", "strategy: DeepSpeed is not supported: expected sharding full"),
        ("strategy: horovod", 'strategy: expected ddp or fsdp, got "horovod"'),
        ("strategy: ddp, sharding_strategy: full_shard", "has no effect without strategy fsdp"),
        ("strategy: fsdp, sharding_strategy: hybrid_shard", "expected full_shard or no_shard, got"),
        ("mixed_precision: fp16", "mixed_precision: expected bf16 or no or fp32, got"),
        ("backend: mpi", "backend: expected nccl or gloo"),
        ("world_size: 2", "expected backend, strategy, sharding_strategy and mixed_precision, got"),
        ("", "expected backend, strategy"),
    ],
)
def test_parts_that_are_not_here_are_refused_by_name(parts: str, message: str) -> None:
    with raises("config.invalid", f"distributed=.*: {message}|: .*{message}"):
        load_config([], [*GIVEN, f"distributed={{{parts}}}"], {})


def test_a_part_and_the_setting_that_it_means_are_given_twice() -> None:
    with raises("config.invalid", "already given as"):
        load_config([], [*GIVEN, "distributed={mixed_precision: bf16}", "dtype=f32"], {})
