"""A base, its two kinds of fine-tune, and their deltas, made once."""

from pathlib import Path

import pytest

from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import create_delta

SHAPES = disk.qwen3_shapes()
TEST_RANK = 3


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("delta")


@pytest.fixture(scope="session")
def base(home: Path) -> Path:
    folder = disk.write_model(home / "tiny", disk.random_arrays(SHAPES, 0), "bfloat16")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


@pytest.fixture(scope="session")
def base32(home: Path) -> Path:
    return disk.write_model(home / "base32", disk.random_arrays(SHAPES, 0))


@pytest.fixture(scope="session")
def tuned(home: Path) -> Path:
    """A full fine-tune in float32 of the bfloat16 base."""
    change = disk.random_arrays(SHAPES, 1, 0.01)
    return disk.write_model(home / "tuned", disk.plus(disk.random_arrays(SHAPES, 0), change))


@pytest.fixture(scope="session")
def adapter(home: Path) -> Path:
    factors = disk.lora_arrays(SHAPES, TEST_RANK, 2)
    return disk.write_adapter(home / "adapter", factors, TEST_RANK)


@pytest.fixture(scope="session")
def dense(home: Path, base: Path, tuned: Path) -> Path:
    out = home / "dense.safetensors"
    return create_delta(tuned, base=base, base_id="tiny", out=out).file


@pytest.fixture(scope="session")
def lowrank(home: Path, base: Path, adapter: Path) -> Path:
    out = home / "lowrank.safetensors"
    return create_delta(adapter, base=base, base_id="tiny", out=out).file
