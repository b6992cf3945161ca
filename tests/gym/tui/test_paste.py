"""What terminals paste when a file is dropped on them."""

import warnings
from pathlib import Path

import pytest

from zoo.gym.tui import paste
from zoo.gym.tui.paste import pasted_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my 'chats' & more.jsonl"
    path.touch()
    return path


def ways(path: str) -> list[str]:
    """A path as several terminals paste it."""
    escaped = "".join(f"\\{c}" if c in " '&" else c for c in path)
    quoted = "'" + path.replace("'", "'\\''") + "'"
    uri = "file://" + path.replace(" ", "%20").replace("'", "%27").replace("&", "%26")
    return [path, f"{path}\n", f"  {path} ", escaped, f"{escaped} ", quoted, uri, f'"{path}"']


def test_every_way_to_paste_a_path_gives_the_path(file: Path) -> None:
    assert {pasted_path(text) for text in ways(str(file))} == {str(file)}


def test_of_several_dropped_files_the_first_counts(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).touch()
    assert pasted_path(f"{tmp_path}/a {tmp_path}/b") == f"{tmp_path}/a"


@pytest.mark.parametrize("text", ["", " \n", "~nobody/x", "a'b", "x" * 5000, "~", "no such file"])
def test_what_is_no_path_is_left_as_it_is(text: str) -> None:
    assert pasted_path(text) == text.strip()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///C:/my%20rows.jsonl", "C:\\my rows.jsonl"),
        ("file://localhost/C:/a.jsonl", "C:\\a.jsonl"),
        ("file://nas/chats/a.jsonl", "\\\\nas\\chats\\a.jsonl"),
    ],
)
def test_a_url_of_windows_is_its_path(monkeypatch: pytest.MonkeyPatch, url: str, path: str) -> None:
    monkeypatch.setattr(paste, "_IS_WINDOWS", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the module, from Python 3.14 on
        windows = pytest.importorskip("nturl2path")
    monkeypatch.setattr("urllib.request.url2pathname", windows.url2pathname)
    assert paste.pasted_path(url) == path
