"""A kind of round that nobody else knows: one file, and one line in the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import ALICE, BOB, FIELDS, LOG, terms, use
from zoo.gym.cli import main
from zoo.gym.rounds.kind import KINDS, Listed, kind_of, load_kind
from zoo.gym.rounds.session.writing import create_round
from zoo.gym.rounds.storage.base import FolderStorage

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line of the table."""
    place = "tests.gym.rounds.kinds.toy:Words"
    words = Listed(place, lambda manifest: manifest.name.startswith("words "))
    monkeypatch.setitem(KINDS, "words", words)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command of somebody in a round of words, and returns what it prints."""
    people = {"log": LOG, "alice": ALICE, "bob": BOB}
    create_round(FolderStorage(tmp_path / "round"), terms(name="words of two"), LOG)

    def run(who: str, verb: str, *words: str) -> str:
        monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / who))
        use(people[who])
        code = main(("round", verb, *words, "--round", str(tmp_path / "round"), "--yes"))
        shown = capsys.readouterr()
        return shown.out if code == 0 else shown.err

    return run


@pytest.mark.parametrize("name", KINDS)
def test_a_round_is_of_the_last_kind_that_fits(name: str) -> None:
    assert kind_of(terms()) is load_kind("weights")
    assert kind_of(terms(name="words of two")) is load_kind("words")
    assert load_kind(name).sends


def test_its_terms_are_checked_by_the_kind() -> None:
    changes: dict[str, Any] = {"name": "words of two", "refit": FIELDS["base"]["identity"]}
    with raises("rounds.bad_terms", "refit: expected null in a round of words"):
        terms(**changes)


def test_commands_ask_the_kind_from_the_commitment_to_the_result(run: Run, tmp_path: Path) -> None:
    assert "--base: has no effect in a round of words" in run(
        "alice", "contribute", "tree", "--base", "b"
    )
    for who, word in (("alice", "tree"), ("bob", "orchard")):
        assert f"{len(word)} letters" in run(who, "contribute", word)
        assert "expected the contribution that you committed to" in run(who, "contribute", "moss")
    run("log", "take", "--close")
    for who in ("alice", "bob"):
        assert "revealed in" in run(who, "reveal")
    run("log", "take", "--close")
    assert "the longest word is orchard" in run("log", "aggregate")
    assert f"1000  {BOB.public.fingerprint}" in shown("rewards", tmp_path)
    assert "ok          result: the longest" in shown("verify", tmp_path)
    assert "the longest word, 2 to 3 contributors" in shown("show", tmp_path)


def shown(verb: str, folder: Path) -> str:
    """Returns what a command about a round prints that takes its folder alone."""
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as out:
        main(("round", verb, str(folder / "round")))
    return out.getvalue()
