"""A base, fine-tunes of it, and soups of them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import SHAPES
from zoo.gym import DeltaSoup, DeltaSoupConfig


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("soup") / "base"
    return disk.write_model(folder, disk.random_arrays(SHAPES, 0))


@pytest.fixture
def tuned(tmp_path: Path) -> Callable[[int], Path]:
    @cache
    def made(seed: int) -> Path:
        return fine_tune(tmp_path / f"user-{seed}", seed)

    return made


def soup_of(
    base: Path, tuned: Callable[[int], Path], users: int, **settings: Any
) -> tuple[DeltaSoup, list[str]]:
    soup = DeltaSoup(DeltaSoupConfig(**settings), base)
    names = [f"user {number}" for number in range(1, users + 1)]
    for number, name in enumerate(names, 1):
        soup.contribute(name, tuned(number), metadata={"examples": number})
    return soup, names
