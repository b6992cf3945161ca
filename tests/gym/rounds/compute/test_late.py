"""A file that is stored after the result changes nothing: its refusal in the log binds."""

from pathlib import Path

import pytest

from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG
from zoo.gym.rounds.compute.applying import apply_result
from zoo.gym.rounds.compute.checks import Check
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.life.opening import open_round
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.folder import FolderStorage


def checked(storage: FolderStorage, folder: Path) -> dict[str, Check]:
    folder.mkdir()
    return {one.name: one for one in verify(open_round(storage), folder)}


@pytest.mark.parametrize("stored", [None, b"other bytes"])
def test_a_file_that_is_uploaded_after_the_result_changes_nothing(
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


def test_a_round_without_missing_files_says_nothing_of_them(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, {ALICE: sources[ALICE], BOB: sources[BOB]}, manifest)
    publish(storage, LOG)
    assert "missing files" not in checked(storage, tmp_path / "reader")
