"""A tiny base with each kind of fine-tune of it, and a data folder of one's own."""

from pathlib import Path

import pytest

from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import create_delta

SHAPES = disk.qwen3_shapes()
RANK = 3


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and remembered bases of this test alone."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ZOO_GYM_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="session")
def base(top: Path) -> Path:
    return disk.write_model(top / "tiny", disk.random_arrays(SHAPES, 0), "bfloat16")


@pytest.fixture(scope="session")
def whole(top: Path) -> Path:
    """A full fine-tune in float32."""
    change = disk.random_arrays(SHAPES, 1, 0.01)
    return disk.write_model(top / "whole", disk.plus(disk.random_arrays(SHAPES, 0), change))


@pytest.fixture(scope="session")
def adapter(top: Path) -> Path:
    """A LoRA on every linear layer, with alpha twice the rank."""
    factors = disk.lora_arrays(SHAPES, RANK, 2)
    return disk.write_adapter(top / "lora", factors, RANK, base_model_name_or_path="org/tiny")


@pytest.fixture(scope="session")
def dense(top: Path, base: Path, whole: Path) -> Path:
    out = top / "dense.safetensors"
    return create_delta(whole, base=base, base_id="org/tiny", base_revision="abc", out=out).file


@pytest.fixture(scope="session")
def lowrank(top: Path, base: Path, adapter: Path) -> Path:
    return create_delta(adapter, base=base, base_id="tiny", out=top / "low.safetensors").file
