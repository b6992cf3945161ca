"""ARCHITECTURE.md names files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATHS = re.findall(
    r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?|[a-z_]+(?:/[a-z_]+)*\.py)`",
    (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"),
)


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_a_named_path_exists(path: str) -> None:
    rooms = (ROOT / "app/zoo/gym", *(ROOT / "app/zoo/gym").iterdir())
    assert any((room / path).exists() for room in rooms)
