"""A base of two matrices and a vector, fine-tunes of it, and rounds about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.protocol.people import terms
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.rounds.protocol.manifest import Manifest

Round = Callable[..., Manifest]

SHAPES = disk.qwen3_shapes()
MATRICES = sorted(name for name, shape in SHAPES.items() if len(shape) == 2)
LAYERS = [name for name in MATRICES if "proj" in name]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contribution")


@pytest.fixture(scope="session")
def base(home: Path) -> Path:
    return disk.write_model(home / "base", disk.random_arrays(SHAPES, 0))


def tuned_model(folder: Path, names: list[str], size: float = 0.01) -> Path:
    """Writes a full fine-tune that changes the named tensors."""
    change = disk.random_arrays({name: SHAPES[name] for name in names}, 1, size)
    return disk.write_model(folder, disk.plus(disk.random_arrays(SHAPES, 0), change))


@pytest.fixture(scope="session")
def tuned(home: Path, base: Path) -> Path:
    assert base.is_dir()
    return tuned_model(home / "tuned", LAYERS)


@pytest.fixture(scope="session")
def adapter(home: Path) -> Path:
    return disk.write_adapter(home / "adapter", disk.lora_arrays(SHAPES, 3, 2), 3)


@pytest.fixture(scope="session")
def round_of(base: Path) -> Round:
    """Returns the terms of a round about the layers of the base."""

    def made(
        form: str, names: list[str] = LAYERS, *, model: str = "tiny", **changes: Any
    ) -> Manifest:
        found = {
            "identity": identity(open_weights(base), names),
            "model": model,
            "revision": "",
        }
        tensors = [{"name": name, "shape": list(SHAPES[name])} for name in names]
        caps = {"file_bytes": 100_000, "rank": 64, "value": 10.0}
        return terms(**{"form": form, "base": found, "tensors": tensors, "caps": caps, **changes})

    return made


def exact_change(name: str, size: float = 0.01) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Returns what `tuned_model` changes in a tensor, as float32 has it."""
    before = disk.random_arrays(SHAPES, 0)[name]
    change = disk.random_arrays({one: SHAPES[one] for one in LAYERS}, 1, size)[name]
    found: np.ndarray[Any, np.dtype[np.float32]] = (before + change) - before
    return found
