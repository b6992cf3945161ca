"""Small JSON files of anybody: an object, or None where there is none that can be read."""

from pathlib import Path

import pytest

from zoo.gym.files import read_json_object


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5000, "absent", "."])
def test_a_path_that_has_no_file_gives_none(tmp_path: Path, name: str) -> None:
    assert read_json_object(tmp_path / name) is None


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b"{", b"[" * 100_000, b"1"])
def test_what_is_no_object_gives_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert read_json_object(tmp_path / "file") is None
