"""A delta of zen-pico, and a private home."""

from pathlib import Path

import pytest

from tests.gym.delta.lora import write_lora
from zoo.gym import create_delta
from zoo.models import pico_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def deltas(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two deltas of zen-pico with other bytes."""
    folder = tmp_path_factory.mktemp("deltas")

    def made(step: float) -> Path:
        source = write_lora(folder / f"lora-{step}", step=step)
        return create_delta(source, base=pico_folder(), out=folder / f"{step}.safetensors").file

    return made(0.01), made(0.02)
