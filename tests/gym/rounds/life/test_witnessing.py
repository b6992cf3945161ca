"""Witnesses and kept heads: a log that is rolled back or forked is seen by people new to it."""

import shutil
from pathlib import Path

import pytest

from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, DAVE, LOG
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import folders
from zoo.gym.rounds.compute.verify import kept_head_check, verify
from zoo.gym.rounds.life.opening import Opened, open_round
from zoo.gym.rounds.life.witnessing import read_kept_head, witness, witness_name
from zoo.gym.rounds.life.writing import create_round, leave, take
from zoo.gym.rounds.log.head import signed_note
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, RoundKey
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.folder import FolderStorage
from zoo.gym.signing import OwnKey, sign


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
    opened = open_round(storage)
    witness(storage, opened.state.id, opened.manifest, opened.head, opened.log, who)
    return open_round(storage)


def forget() -> None:
    """Makes this machine another person's, who has seen nothing."""
    shutil.rmtree(folders().data / "rounds" / "seen")


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
    with pytest.raises(InputError, match=told):
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


def test_a_fork_is_told_by_a_witness_of_the_other_history(
    watched: FolderStorage, tmp_path: Path
) -> None:
    other = forked(watched, tmp_path / "other")
    watch(watched)
    name = witness_name(DAVE.public)
    other.replace(name, watched.read(name) or b"")
    forget()
    with pytest.raises(InputError, match=f"witness {DAVE.public.fingerprint} .* another history"):
        open_round(other)


def test_a_witness_does_not_sign_a_fork_of_what_it_signed(
    watched: FolderStorage, tmp_path: Path
) -> None:
    other = forked(watched, tmp_path / "other")
    watch(watched)
    with pytest.raises(InputError, match="this machine has seen, got another history"):
        watch(other)
    assert other.read(witness_name(DAVE.public)) is None


def test_a_kept_head_tells_a_log_that_continues_it_from_one_that_does_not(
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
    with pytest.raises(NotAvailableError, match="expected a signed head"):
        kept_head_check(open_round(watched), tmp_path / "nothing")


def test_a_head_that_nobody_of_the_round_signed_is_none(
    watched: FolderStorage, tmp_path: Path
) -> None:
    opened = open_round(watched)
    (tmp_path / "note").write_bytes(signed_note(opened.head, {}) + b"\n")
    with pytest.raises(InputError, match="log head: expected"):
        read_kept_head(tmp_path / "note", opened.state.id, {})


def test_only_named_witnesses_sign_and_only_for_themselves(watched: FolderStorage) -> None:
    with pytest.raises(InputError, match="expected a key of role witness"):
        watch(watched, BOB)
    opened = watch(watched)
    watched.replace(witness_name(DAVE.public), opened.note)  # the maker's own head
    with pytest.raises(InputError, match="expected a signature of the witness, got none"):
        open_round(watched)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"-5\n00\n", b"3\n00\n", b"", b"3 x\n"])
def test_a_damaged_note_of_what_was_seen_is_named(content: bytes, watched: FolderStorage) -> None:
    path = folders().data / "rounds" / "seen" / open_round(watched).state.id
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path.name}: expected a size and a root"):
        open_round(watched)
