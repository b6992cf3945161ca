"""What lies in the inbox of a shared folder beside entries: it keeps nobody out."""

import os
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import ALICE, BOB, LOG, commit
from zoo.gym.cli import main
from zoo.gym.errors import StorageError
from zoo.gym.rounds.measure.measure import with_inbox
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, leave, take
from zoo.gym.rounds.storage.base import MOST_BYTES, FolderStorage
from zoo.gym.signing import own_key

STRAY = ("Thumbs.db", "a b.json", ".DS_Store", "\udcff\udcfe.json", "X.json")
LARGE = f"{'0' * 64}.json"


@pytest.fixture
def shared(started: FolderStorage) -> FolderStorage:
    """A round with two commitments in its inbox, among files of systems and a large one."""
    round_ = open_round(started).state.id
    for who in (ALICE, BOB):
        leave(started, commit(who, round_, str(who.public)))
    inbox = started.folder / "inbox"
    for name in STRAY:
        Path(os.fsdecode(os.fsencode(inbox / name))).write_bytes(b"x")
    (inbox / LARGE).write_bytes(bytes(MOST_BYTES + 1))
    return started


def test_stray_files_are_skipped_and_a_huge_one_is_named(
    shared: FolderStorage,
) -> None:
    found = take(shared, LOG)
    assert {entry.key for entry in found.added} == {ALICE.public, BOB.public}
    ((name, reason),) = found.refused
    assert (name, reason.startswith("cannot read '")) == (f"inbox/{LARGE}", True)
    assert "larger than 16777216 bytes" in reason
    assert close_phase(shared, LOG).phase is Phase.REVEAL
    assert with_inbox(open_round(shared)).phase is Phase.REVEAL


def test_stray_files_do_not_keep_a_round_from_being_shown(
    shared: FolderStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    own_key()  # whose commitment is looked for in the inbox
    assert main(["round", "show", shared.address]) == 0
    assert "phase: commit" in capsys.readouterr().out


def test_a_log_that_is_a_link_out_of_the_round_is_not_written(
    started: FolderStorage, tmp_path: Path
) -> None:
    leave(started, commit(ALICE, open_round(started).state.id, "alice"))
    (started.folder / "log").rename(tmp_path / "elsewhere")
    (started.folder / "log").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with raises("rounds.outside_link") as caught:
        take(started, LOG)
    assert caught.value.code == "rounds.outside_link"
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_a_round_whose_folder_is_a_link_itself_is_written(
    started: FolderStorage, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(started.folder)
    place = FolderStorage(tmp_path / "link")
    leave(place, commit(ALICE, open_round(place).state.id, "alice"))
    assert len(take(place, LOG).added) == 1


def test_a_storage_that_is_gone_is_an_error_and_no_refusal(
    shared: FolderStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FolderStorage.read

    def away(self: FolderStorage, name: str) -> bytes | None:
        if name.startswith("inbox/"):
            self.folder.rename(tmp_path / "unplugged")
            raise StorageError("cannot read it")
        return read(self, name)

    monkeypatch.setattr(FolderStorage, "read", away)
    with raises("rounds.round_gone") as caught:
        take(shared, LOG)
    assert caught.value.code == "rounds.round_gone"
