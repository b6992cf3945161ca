"""Witnesses and kept heads: a log that is rolled back or forked is seen by people new to it."""

import shutil
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, DAVE, LOG
from zoo.gym.errors import GymWarning
from zoo.gym.paths import folders
from zoo.gym.rounds.compute.verify import kept_head_check, verify
from zoo.gym.rounds.log.reader import Head, signed_note
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, RoundKey
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.opening import (
    Opened,
    note_key,
    open_round,
    witness,
    witness_name,
)
from zoo.gym.rounds.session.writing import create_round, leave, take, void_round
from zoo.gym.rounds.storage.base import FolderStorage, Storage
from zoo.gym.signing import OwnKey, sign
from zoo.gym.signing.keys import sign_bytes


@pytest.fixture
def watched(storage: FolderStorage, manifest: Manifest) -> FolderStorage:
    """A round that names Dave as its witness, with one commitment."""
    key = RoundKey(role="witness", key=str(DAVE.public), expires=manifest.keys[0].expires)
    create_round(storage, manifest.model_copy(update={"keys": (*manifest.keys, key)}), LOG)
    commit(storage, ALICE)
    return storage


def commit(storage: Storage, who: OwnKey) -> None:
    id_ = open_round(storage, remember=False).state.id
    body = objects.body_of(id_, commitment=who.public.raw.hex())
    leave(storage, sign(who, objects.COMMIT, body))
    take(storage, LOG)


def watch(storage: Storage, who: OwnKey = DAVE) -> Opened:
    witness(open_round(storage), who)
    return open_round(storage)


def forget() -> None:
    """Makes this machine another person's, who has seen nothing."""
    shutil.rmtree(folders().data / "rounds" / "seen")


@pytest.mark.slow
def test_a_reader_sees_how_far_a_witness_has_signed(watched: FolderStorage, tmp_path: Path) -> None:
    assert watch(watched).witnesses == {DAVE.public: 2}
    commit(watched, BOB)
    opened = open_round(watched)
    assert (opened.witnesses, opened.head.size) == ({DAVE.public: 2}, 3)
    details = {check.name: check.detail for check in verify(opened, tmp_path)}
    assert details["witnesses"] == "1 of 1 signed, up to entry 2"
    assert watch(watched).witnesses == {DAVE.public: 3}


def test_a_log_that_was_rolled_back_is_told_by_its_witness(
    watched: FolderStorage, tmp_path: Path
) -> None:
    shutil.copytree(watched.folder / "log", tmp_path / "early")
    commit(watched, BOB)
    watch(watched)
    shutil.rmtree(watched.folder / "log")
    shutil.copytree(tmp_path / "early", watched.folder / "log")
    forget()
    told = rf"3 entries that witness {DAVE.public.fingerprint} has seen, got 2: .* rolled back"
    with raises("rounds.rolled_back", told):
        open_round(watched)


def forked(watched: FolderStorage, folder: Path) -> FolderStorage:
    """Returns another history of the same round, of the same length."""
    shutil.copytree(watched.folder, folder)
    other = FolderStorage(folder)
    forget()
    commit(other, CAROL)
    forget()
    commit(watched, BOB)
    return other


@pytest.mark.slow
def test_a_fork_is_told_by_a_witness_of_the_other_history(
    watched: FolderStorage, tmp_path: Path
) -> None:
    other = forked(watched, tmp_path / "other")
    watch(watched)
    name = witness_name(DAVE.public)
    other.replace(name, watched.read(name) or b"")
    forget()
    with raises("rounds.forked", f"witness {DAVE.public.fingerprint} .* another history"):
        open_round(other)


@pytest.mark.slow
def test_a_witness_does_not_sign_a_fork_of_what_it_signed(
    watched: FolderStorage, tmp_path: Path
) -> None:
    other = forked(watched, tmp_path / "other")
    watch(watched)
    with raises("rounds.forked", "this machine has seen, got another history"):
        watch(other)
    assert other.read(witness_name(DAVE.public)) is None


@pytest.mark.slow
def test_kept_head_tells_a_continued_log_from_a_forked_one(
    watched: FolderStorage, tmp_path: Path
) -> None:
    other = forked(watched, tmp_path / "other")
    kept = tmp_path / "head.note"
    kept.write_bytes(open_round(watched, remember=False).note)
    commit(watched, CAROL)
    found = kept_head_check(open_round(watched, remember=False), kept)
    assert (found.ok, found.detail) == (True, "the log continues its 3 entries")
    found = kept_head_check(open_round(other, remember=False), kept)
    assert (found.ok, "another history" in found.detail) == (False, True)
    with raises("rounds.no_head", "expected a signed head"):
        kept_head_check(open_round(watched), tmp_path / "nothing")


def test_a_head_that_nobody_of_the_round_signed_is_none(
    watched: FolderStorage, tmp_path: Path
) -> None:
    opened = open_round(watched)
    (tmp_path / "note").write_bytes(signed_note(opened.head, {}) + b"\n")
    with raises("rounds.bad_head", "log head: expected"):
        kept_head_check(opened, tmp_path / "note")


def test_only_named_witnesses_sign_and_only_for_themselves(watched: FolderStorage) -> None:
    with raises("rounds.other_role", "expected a key of role witness"):
        watch(watched, BOB)
    opened = watch(watched)
    watched.replace(witness_name(DAVE.public), opened.note)  # the maker's own head
    with pytest.warns(GymWarning, match="expected a signature of the witness, got none"):
        assert open_round(watched).witnesses == {}


def invented(opened: Opened, size: int) -> bytes:
    """Returns a note of Dave's, signed by nobody else, for a head that the log never had."""
    head = Head(opened.head.origin, size, b"\x42" * 32)
    return signed_note(head, {note_key(opened.state.id, DAVE.public): signed_by(DAVE, head)})


def signed_by(who: OwnKey, head: Head) -> bytes:
    return sign_bytes(who.private, head.text().encode())


def test_a_witness_that_lies_alone_ends_no_round(watched: FolderStorage, tmp_path: Path) -> None:
    name = witness_name(DAVE.public)
    for size in (2, 10**6):
        watched.replace(name, invented(open_round(watched, remember=False), size))
        told = f"note of witness {DAVE.public.fingerprint} proves nothing.* of the log's key"
        with pytest.warns(GymWarning, match=told):
            opened = open_round(watched)
        details = {check.name: check.detail for check in verify(opened, tmp_path)}
        assert details["witnesses"] == "0 of 1 signed, up to entry 0"
        (watched.folder / name).unlink()
    watched.replace(name, b"no note")
    with pytest.warns(GymWarning, match=f"{name}: .* expected a signed note"):
        assert void_round(watched, LOG, "its witness lies").phase is Phase.VOID


def test_a_folder_in_place_of_a_note_ends_no_round(watched: FolderStorage) -> None:
    (watched.folder / witness_name(DAVE.public)).mkdir(parents=True)
    with pytest.warns(GymWarning, match="proves nothing.*not a regular file"):
        assert open_round(watched).witnesses == {}


def test_witness_replaces_its_own_invalid_note(watched: FolderStorage) -> None:
    opened = open_round(watched)
    watched.replace(witness_name(DAVE.public), invented(opened, 9))
    with pytest.warns(GymWarning, match="proves nothing"):
        assert watch(watched).witnesses == {DAVE.public: 2}
    assert open_round(watched).witnesses == {DAVE.public: 2}


def test_later_signed_head_shows_a_rolled_back_log(
    watched: FolderStorage,
) -> None:
    opened = open_round(watched)
    later = Head(opened.head.origin, 9, b"\x42" * 32)
    keys = {note_key(opened.state.id, who.public): signed_by(who, later) for who in (LOG, DAVE)}
    watched.replace(witness_name(DAVE.public), signed_note(later, keys))
    with raises("rounds.rolled_back", r"expected at least the 9 entries .* rolled back"):
        open_round(watched)


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"-5\n00\n", b"3\n00\n", b"", b"3 x\n"])
def test_a_damaged_note_of_what_was_seen_is_named(content: bytes, watched: FolderStorage) -> None:
    path = folders().data / "rounds" / "seen" / open_round(watched).state.id
    path.write_bytes(content)
    with raises("rounds.seen_damaged", f"{path.name}: expected a size and a root"):
        open_round(watched)
