"""A round of lessons, with the data folder of a test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.rounds.lessons.world import World, manifest_of

Start = Callable[..., World]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a round with terms."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))

    def starting(**terms: Any) -> World:
        folder = tmp_path / f"world-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return World(folder, manifest_of(**terms))

    return starting
