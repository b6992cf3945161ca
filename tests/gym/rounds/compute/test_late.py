"""Only what a round stores decides who counts: no later file, nor one that this machine has."""

from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG, digest_of
from zoo.gym.rounds.compute.aggregate import compute
from zoo.gym.rounds.compute.applying import apply_result
from zoo.gym.rounds.compute.collect import Work
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import Check, verify
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.contributing import prepare, reveal, send_commitment, send_reveal
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, create_round, leave, take, writer_of
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.signing import sign


def checked(storage: FolderStorage, folder: Path) -> dict[str, Check]:
    folder.mkdir()
    return {one.name: one for one in verify(open_round(storage), folder)}


@pytest.mark.slow
@pytest.mark.parametrize("stored", [None, b"other bytes"])
def test_file_uploaded_after_the_result_changes_nothing(
    stored: bytes | None,
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    tmp_path: Path,
) -> None:
    run_round(storage, base, sources, manifest)
    name = chunk_name(open_round(storage).state.reveals[CAROL.public].chunks)
    late = storage.read(name) or b""
    (storage.folder / name).unlink()
    if stored:
        storage.write(name, stored)
    report = publish(storage, LOG).report
    assert report.refused[CAROL.public].startswith("not stored when the result was computed: ")
    (storage.folder / name).write_bytes(late)

    found = checked(storage, tmp_path / "reader")
    assert [one for one in found.values() if one.ok is False] == []
    assert found["missing files"].ok is None
    assert "1 of 3 refused by the maker's word alone" in found["missing files"].detail
    assert publish(storage, LOG).report == report
    assert apply_result(open_round(storage), base).digest == report.result.digest


@pytest.mark.slow
def test_a_round_without_missing_files_says_nothing_of_them(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, {ALICE: sources[ALICE], BOB: sources[BOB]}, manifest)
    publish(storage, LOG)
    assert "missing files" not in checked(storage, tmp_path / "reader")


@pytest.mark.slow
def test_file_of_another_key_counts_for_nobody_else(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    """Carol commits to Bob's file, before him, and reveals a list of chunks that nobody stores."""
    create_round(storage, manifest, LOG)
    for who, source in ((CAROL, BOB), (ALICE, ALICE), (BOB, BOB)):
        own, entry = prepare(open_round(storage), sources[source], base, who)
        send_commitment(own, entry, storage)
        take(storage, LOG)
    close_phase(storage, LOG)
    for who in (ALICE, BOB):
        own, entry = reveal(open_round(storage), who)
        send_reveal(own, entry, storage)
    _, entry = reveal(open_round(storage), CAROL)
    leave(storage, sign(CAROL, objects.REVEAL, {**entry.body, "chunks": digest_of("nothing")}))
    state = close_phase(storage, LOG)

    first = compute(Work(state, storage, work_folder(state.id)))
    report = publish(storage, LOG).report
    assert report == first.report
    assert set(report.refused) == {CAROL.public}
    for _ in range(2):
        found = verify(open_round(storage), work_folder(state.id))
        assert [one for one in found if one.ok is False] == []
    assert [one for one in checked(storage, tmp_path / "else").values() if one.ok is False] == []


@pytest.mark.slow
def test_a_file_that_only_this_machine_has_counts_no_more(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, sources, manifest)
    state = open_round(storage).state
    compute(Work(state, storage, work_folder(state.id)))
    for name in storage.names("chunks"):
        if name == chunk_name(state.reveals[CAROL.public].chunks):
            (storage.folder / name).unlink()
    assert set(publish(storage, LOG).report.refused) == {CAROL.public}
    assert [one for one in checked(storage, tmp_path / "else").values() if one.ok is False] == []


@pytest.mark.slow
def test_a_result_that_was_lost_is_stored_again(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, sources, manifest)
    before = set(storage.names("chunks"))
    report = publish(storage, LOG).report
    for name in set(storage.names("chunks")) - before:
        (storage.folder / name).unlink()
    assert "published files" in [
        one.name for one in checked(storage, tmp_path / "lost").values() if one.ok is False
    ]
    assert publish(storage, LOG).report == report
    assert [one for one in checked(storage, tmp_path / "else").values() if one.ok is False] == []


@pytest.mark.slow
def test_result_with_other_logged_reasons_is_not_published(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    """As a fault of a program would have it: nobody could verify that round any more."""
    run_round(storage, base, sources, manifest)
    state = open_round(storage).state
    (storage.folder / chunk_name(state.reveals[CAROL.public].chunks)).unlink()
    body = objects.body_of(state.id, key=str(CAROL.public), reason="another reason")
    with writer_of(storage, LOG) as append:
        append.add([sign(LOG, objects.REFUSAL, body)])
    with raises("rounds.other_refusals", "expected the refusals of the log, got another reason"):
        publish(storage, LOG)
    assert open_round(storage).state.result is None
