"""Nothing in a report names its owner."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.night import one_in
from zoo.gym.doctor.privacy import scrub

SECRET = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz"
OTHER_SECRET = "correct horse battery staple"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with everything of ours below it, and two secrets."""
    home = tmp_path / "Ada Lovelace"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("MY_API_KEY", OTHER_SECRET)
    monkeypatch.setenv("HF_HOME", str(home / "hf"))
    monkeypatch.setenv("ZOO_GYM_HOME", str(home / "zoo"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    return home


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot write '{home}/zoo/data/runs/r1': full", "cannot write '<state folder>': full"),
        ("{home}/hf/hub/models--a--b/x.json: gone", "<model cache>: gone"),
        ("see {home}/letters/to-me.txt, and {home}", "see <home folder>, and <home folder>"),
        ("{home}-not/mine", "{home}-not/mine"),
        ("401 for hf_zzzzzzzzzzzzzzzz", "401 for <token>"),
        ("sent " + OTHER_SECRET, "sent <token>"),
    ],
)
def test_private_words_give_way_to_their_role(home: Path, text: str, shown: str) -> None:
    assert scrub({"said": [text.format(home=home)]}) == {"said": [shown.format(home=home)]}


def test_the_clone_of_a_command_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.gym.doctor.privacy.clone_folder", lambda: tmp_path / "Adas clone")
    command = f"cd '{tmp_path}/Adas clone' && pip install -e \".[keyring]\""
    assert scrub(command) == "cd '<program>' && pip install -e \".[keyring]\""


def test_a_home_at_the_root_does_not_swallow_every_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert scrub("1/2 of https://example.org/x") == "1/2 of https://example.org/x"


def test_the_command_reports_no_path_and_no_token(home: Path) -> None:
    program = f"import sys; sys.exit('broken: {home}/a/b.so and {SECRET}')"
    shown = whole_output(home, (sys.executable, "-c", program))
    assert "broken: <home folder> and <token>" in shown
    assert not leaks(shown, home)


@pytest.mark.slow
@pytest.mark.parametrize("words", one_in(2, [["doctor"], ["doctor", "--json"]]))
def test_the_real_report_contains_no_path_and_no_token(home: Path, words: list[str]) -> None:
    home.mkdir()
    argv = [sys.executable, "-m", "zoo.gym", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=home)
    shown = done.stdout + done.stderr
    assert "zen-nano" in shown
    assert not leaks(shown, home)
    assert max(map(len, done.stdout.splitlines())) <= 80 or "--json" in words


def whole_output(home: Path, argv: tuple[str, ...]) -> str:
    """Returns text and JSON of a report, as the command prints them."""
    from zoo.gym.doctor import as_json, as_lines, examine

    report = examine(lambda _: None, argv)
    return "\n".join([*as_lines(report, {}), json.dumps(as_json(report, {}))])


def leaks(shown: str, home: Path) -> list[str]:
    """Returns what should not have been shown."""
    private = (str(home), home.name, str(home.parent), SECRET, OTHER_SECRET, SECRET[3:])
    return [text for text in private if text in shown]
