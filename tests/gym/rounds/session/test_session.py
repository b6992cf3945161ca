"""A round from its manifest to the reveals, in a folder, with every step cut and repeated."""

import shutil
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG, terms
from zoo.gym.files.lock import locked
from zoo.gym.paths import folders
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session import writing
from zoo.gym.rounds.session.contributing import (
    own_contribution,
    prepare,
    reveal,
    send_commitment,
    send_reveal,
)
from zoo.gym.rounds.session.opening import MANIFEST, open_round
from zoo.gym.rounds.session.writing import (
    close_phase,
    create_round,
    leave,
    lock_file,
    take,
    void_round,
)
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import StoredFile, fetch
from zoo.gym.signing import OwnKey


def commit(storage: FolderStorage, who: OwnKey, source: Path, base: Path) -> None:
    own, entry = prepare(open_round(storage), source, base, who)
    send_commitment(own, entry, storage)


def show(storage: FolderStorage, who: OwnKey) -> None:
    own, entry = reveal(open_round(storage), who)
    send_reveal(own, entry, storage)


@pytest.mark.slow
def test_two_contributions_are_logged_and_fetched(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    sources = {who: fine_tune(tmp_path / str(seed), seed) for seed, who in enumerate((ALICE, BOB))}
    for who, source in sources.items():
        commit(started, who, source, base)
    assert len(take(started, LOG).added) == 2
    assert close_phase(started, LOG).phase is Phase.REVEAL
    for who in sources:
        show(started, who)
    assert close_phase(started, LOG).phase is Phase.COMPUTE

    found = open_round(started).state
    assert set(found.accepted) == {ALICE.public, BOB.public}
    shown = found.reveals[ALICE.public]
    fetch(StoredFile(shown.digest, shown.bytes, shown.chunks), started, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == own_contribution(
        open_round(started), ALICE
    ).file.read_bytes()


@pytest.mark.slow
def test_the_same_commands_again_change_nothing(
    started: FolderStorage, manifest: Manifest, base: Path, tmp_path: Path
) -> None:
    source = fine_tune(tmp_path / "tuned", 1)
    for _ in range(2):
        create_round(started, manifest, LOG)
        commit(started, ALICE, source, base)
        take(started, LOG)
    assert len(open_round(started).entries) == 2
    assert len(started.names("inbox")) == 1


@pytest.mark.slow
def test_a_commitment_that_was_sent_cannot_be_changed(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    first, second = (fine_tune(tmp_path / str(seed), seed) for seed in (1, 2))
    prepare(open_round(started), second, base, ALICE)  # not sent: may be replaced
    commit(started, ALICE, first, base)
    with raises("rounds.other_file", "expected the contribution that you committed to"):
        prepare(open_round(started), second, base, ALICE)
    with raises("rounds.other_file", "expected the contribution that you committed to"):
        prepare(open_round(started), first, base, ALICE, examples=5)


def test_no_weights_leave_before_the_reveal(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    commit(started, ALICE, fine_tune(tmp_path / "tuned", 1), base)
    assert started.names("chunks") == []
    assert all(len(started.read(name) or b"") < 1000 for name in started.names("inbox"))


@pytest.mark.slow
def test_a_missed_quorum_extends_once_and_then_the_round_is_void(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    commit(started, ALICE, fine_tune(tmp_path / "tuned", 1), base)
    assert close_phase(started, LOG).extended == {Phase.COMMIT}
    found = close_phase(started, LOG)
    assert (found.phase, found.reason) == (Phase.VOID, "1 of 2 contributors in phase commit")
    with raises("rounds.other_phase", "expected phase commit or reveal, got void"):
        close_phase(started, LOG)
    with raises("rounds.other_phase", "takes no new contributions"):
        prepare(open_round(started), tmp_path / "tuned", base, BOB)


@pytest.mark.slow
def test_entry_that_may_not_follow_is_refused_with_a_reason(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    commit(started, ALICE, fine_tune(tmp_path / "tuned", 1), base)
    own, entry = prepare(open_round(started), tmp_path / "tuned", base, BOB)
    changed = type(entry)(entry.context, {**entry.body, "round": "0" * 64}, entry.key, "0" * 128)
    name = leave(started, changed)
    started.write("inbox/junk.json", b"{}")
    found = take(started, LOG)

    assert [entry.key for entry in found.added] == [ALICE.public]
    reasons = dict(found.refused)
    assert "the object was changed" in reasons[name]
    assert "expected an object of a round" in reasons["inbox/junk.json"]
    assert own.file.exists()


def test_only_the_key_of_the_log_writes_it(started: FolderStorage, manifest: Manifest) -> None:
    with raises("rounds.not_maker"):
        take(started, ALICE)
    with raises("rounds.other_key") as caught:
        create_round(started, manifest, ALICE)
    assert caught.value.code == "rounds.other_key"


def test_two_writers_of_one_machine_do_not_fork_the_log(
    started: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAIT_S", 0.01)
    with locked(lock_file(open_round(started).state.id, started.address)) as held:
        assert held
        with raises("rounds.log_locked") as caught:
            take(started, LOG)
        assert caught.value.code == "rounds.log_locked"


@pytest.mark.slow
def test_a_log_that_was_rolled_back_or_forked_is_refused(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    for seed, who in enumerate((ALICE, BOB, CAROL)):
        commit(started, who, fine_tune(tmp_path / str(seed), seed), base)
    inbox = started.names("inbox")
    shutil.copytree(started.folder, tmp_path / "early")
    take(started, LOG)
    open_round(started)
    early = FolderStorage(tmp_path / "early")
    with raises("rounds.rolled_back", r"at least the 4 entries .* was rolled back"):
        open_round(early)

    shutil.move(folders().data / "rounds" / "seen", tmp_path / "seen")  # as on another machine
    (early.folder / inbox[0]).rename(early.folder / "inbox" / "zz.json")  # another order
    take(early, LOG)
    shutil.rmtree(folders().data / "rounds" / "seen")
    shutil.move(tmp_path / "seen", folders().data / "rounds" / "seen")
    with raises("rounds.forked"):
        open_round(early)


def test_a_round_with_another_manifest_or_id_is_refused(
    started: FolderStorage, manifest: Manifest, tmp_path: Path
) -> None:
    with raises("rounds.other_round", "expected round 000000000000"):
        open_round(started, expected="0" * 64)
    other = FolderStorage(tmp_path / "other")
    create_round(other, manifest.model_copy(update={"pool": 5}), LOG)
    started.replace(MANIFEST, other.read(MANIFEST) or b"")
    with raises("rounds.other_log") as caught:
        open_round(started)
    assert caught.value.code == "rounds.other_log"
    with raises("rounds.round_exists") as caught:
        create_round(started, manifest, LOG)
    assert caught.value.code == "rounds.round_exists"
    with raises("rounds.no_round") as refused:
        open_round(FolderStorage(tmp_path / "nothing"))
    assert refused.value.code == "rounds.no_round"


def test_manifest_larger_than_a_log_entry_is_refused(tmp_path: Path) -> None:
    tensors = [{"name": f"layers.{n:04}.experts.weight", "shape": [8, 8]} for n in range(2000)]
    with raises("rounds.manifest_too_large", r"at most 65535 bytes.* with 2000 tensors"):
        create_round(FolderStorage(tmp_path / "round"), terms(tensors=tensors), LOG)
    assert not (tmp_path / "round").exists()


@pytest.mark.slow
def test_the_maker_makes_a_round_void_by_word_in_any_open_phase(
    started: FolderStorage, base: Path, tmp_path: Path
) -> None:
    for seed, who in enumerate((ALICE, BOB)):
        commit(started, who, fine_tune(tmp_path / str(seed), seed), base)
    close_phase(started, LOG)
    with raises("rounds.not_maker"):
        void_round(started, ALICE, "a lost key")
    for bad in ("", " ", "two\nlines", "x" * 2001):
        with raises("rounds.bad_reason"):
            void_round(started, LOG, bad)
    assert void_round(started, LOG, "a lost key").reason == "a lost key"
    assert open_round(started).state.phase is Phase.VOID
    with raises("rounds.ended_already", "the round is void already"):
        void_round(started, LOG, "again")
