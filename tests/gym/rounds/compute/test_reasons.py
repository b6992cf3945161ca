"""A reason may quote what a contributor sent: it is one printable line, in log and report alike."""

from pathlib import Path

import pytest

from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG
from zoo.gym.delta.file.header import Base, DeltaHeader
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.contribution import write
from zoo.gym.rounds.kinds.weights import WeightsRound
from zoo.gym.rounds.protocol.manifest import Coding, Manifest
from zoo.gym.rounds.protocol.objects import as_text, is_text
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage


def unchecked(path: Path, manifest: Coding) -> Delta:
    assert manifest
    return load_delta(path)


@pytest.mark.slow
@pytest.mark.parametrize("named", ["x" * 3000, "a\u00a0b", "a\u00adb", "a\ue000b"])
def test_no_base_that_a_contribution_names_stops_a_round(
    named: str,
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    honest = write.contribution_header
    made: list[DeltaHeader] = []

    def header(*given: object) -> DeltaHeader:
        found = honest(*given)  # type: ignore[arg-type]
        made.append(found)
        if len(made) < len(sources):
            return found
        return found.model_copy(update={"base": Base(identity="0" * 64, id=named, revision=None)})

    monkeypatch.setattr(write, "contribution_header", header)
    monkeypatch.setattr(write, "open_contribution", unchecked)
    monkeypatch.setattr(WeightsRound, "check_file", lambda *_: None)
    run_round(storage, base, sources, manifest)
    refused = publish(storage, LOG).report.refused
    assert list(refused) == [CAROL.public]
    assert refused[CAROL.public].startswith("contribution: expected a change of the round's base")
    assert set(open_round(storage).state.accepted) == {ALICE.public, BOB.public}
    assert [one for one in verify(open_round(storage), tmp_path) if one.ok is False] == []


@pytest.mark.slow
def test_every_character_makes_a_sentence_that_the_log_takes() -> None:
    codes = [*range(0x10000), *range(0x10000, 0x110000, 97)]
    assert [code for code in codes if not is_text(as_text(chr(code)))] == []
    assert (as_text("a\nb\u202e"), as_text("é 漢 ok")) == ("a\\x0ab\\u202e", "é 漢 ok")
    assert as_text("") == "no reason given"
    assert not is_text("\u0221")  # of Unicode 4.0: not every reader knows that it is printable


def test_long_words_are_cut() -> None:
    assert len(as_text("x" * 3000)) == 2000
    assert as_text("\n" * 10, 9) == "\\x0a\\x..."
