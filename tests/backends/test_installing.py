"""An extra is installed from the clone, or package by package: no index has zoo-gym itself."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.backends.machine import installing

REQUIRES = [
    "zoo-gym[b] ; extra == 'a'",
    "x[y]<3,>=1.2 ; extra == 'b'",
    "z ; extra == 'b'",
    "elsewhere ; python_version < '3' and extra == 'b'",
    "base-thing",
]


def command(monkeypatch: pytest.MonkeyPatch, url: dict[str, object] | None) -> str:
    """What installs the extra a, if zoo-gym was installed from there."""
    record = None if url is None else json.dumps(url)
    found = SimpleNamespace(read_text=lambda _: record)
    monkeypatch.setattr(installing, "distribution", lambda _: found)
    monkeypatch.setattr(installing, "requires", lambda _: REQUIRES)
    monkeypatch.setattr(installing, "find_spec", lambda _: object())
    return installing.install_command("a")


def test_a_clone_installs_itself_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url: dict[str, object] = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    assert command(monkeypatch, url) == f'cd {tmp_path} && pip install -e ".[a]"'
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, url) == 'pip install -e ".[a]"'


@pytest.mark.parametrize(
    "url",
    [
        None,
        {"url": "file:///tmp", "dir_info": {}},
        {"url": "https://host/zoo_gym.whl", "archive_info": {}},
        {"url": "file:///no/such/clone", "dir_info": {"editable": True}},
    ],
    ids=["index", "folder", "wheel", "removed clone"],
)
def test_elsewhere_the_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, url: dict[str, object] | None
) -> None:
    assert command(monkeypatch, url) == 'pip install "x[y]<3,>=1.2" "z"'


def test_no_text_installs_zoo_gym_by_its_name() -> None:
    root = Path(__file__).parents[2]
    files = [*root.glob("app/**/*.py"), *root.glob("backends/**/*.py"), *root.glob("docs/**/*.md")]
    files += [root / "README.md", *root.glob("models/**/*.py")]
    named = re.compile(r"""pip install (?:-U )?["']?zoo-gym""")
    assert [file for file in files if named.search(file.read_text(encoding="utf-8"))] == []
