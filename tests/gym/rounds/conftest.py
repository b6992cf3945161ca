"""A round about the layers of a tiny base, in a folder, with the data folder of a test."""

from pathlib import Path

import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.protocol.people import terms
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.storage.base import FolderStorage


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("life") / "base"
    return disk.write_model(folder, disk.random_arrays(SHAPES, 0))


@pytest.fixture
def manifest(base: Path) -> Manifest:
    """Terms for two or three contributors of signs."""
    found = {"identity": identity(open_weights(base), LAYERS), "model": "tiny", "revision": ""}
    tensors = [{"name": name, "shape": list(SHAPES[name])} for name in LAYERS]
    caps = {"file_bytes": 100_000, "rank": 64, "value": 10.0}
    return terms(base=found, tensors=tensors, caps=caps)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStorage:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return FolderStorage(tmp_path / "round")


def fine_tune(folder: Path, seed: int, size: float = 0.01) -> Path:
    """Writes a full fine-tune of the layers."""
    change = disk.random_arrays({name: SHAPES[name] for name in LAYERS}, seed, size)
    return disk.write_model(folder, disk.plus(disk.random_arrays(SHAPES, 0), change))
