"""What runs with sampled answers need: a private home, and sums to answer."""

from pathlib import Path

import pytest

from tests.gym.train.methods.rollout_runs import write_sums


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of sums with their answers."""
    return write_sums(tmp_path_factory.mktemp("data"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the runs of a test into a folder of its own."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
