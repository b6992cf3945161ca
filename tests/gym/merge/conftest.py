"""A tiny base with two fine-tunes of each form, and a home of one's own."""

from pathlib import Path

import pytest

from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import create_delta

SHAPES = disk.qwen3_shapes()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and remembered bases of this test alone, in a folder to write to."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("merge")


@pytest.fixture(scope="session")
def base(top: Path) -> Path:
    return disk.write_model(top / "tiny", disk.random_arrays(SHAPES, 0), "bfloat16")


@pytest.fixture(scope="session")
def wholes(top: Path) -> list[Path]:
    """Two full fine-tunes in float32; mergekit would read the name of one as an adapter."""
    start = disk.random_arrays(SHAPES, 0)
    return [
        disk.write_model(top / name, disk.plus(start, disk.random_arrays(SHAPES, seed, 0.1)))
        for seed, name in ((1, "one"), (2, "two+three"))
    ]


@pytest.fixture(scope="session")
def adapters(top: Path, base: Path) -> list[Path]:
    return [
        disk.write_adapter(
            top / f"lora{seed}",
            disk.lora_arrays(SHAPES, 3, seed),
            3,
            base_model_name_or_path=str(base),
        )
        for seed in (2, 3)
    ]


@pytest.fixture(scope="session")
def deltas(top: Path, base: Path, wholes: list[Path]) -> list[Path]:
    return [
        create_delta(whole, base=base, base_id=str(base), out=top / f"{number}.zdelta").file
        for number, whole in enumerate(wholes)
    ]
