"""A private round from the terms to the result: once, with what anybody can check of it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.contribution.conftest import LAYERS
from tests.gym.rounds.privacy.conftest import VALUES, privacy, private_terms
from tests.gym.rounds.protocol.people import ALICE, CAROL, LOG
from zoo.core.errors import StorageError
from zoo.gym.delta.file.reader import tensor_parts
from zoo.gym.delta.rebuild import difference
from zoo.gym.rounds.compute import private
from zoo.gym.rounds.compute.private import publish_private
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.privacy import ledger, mechanism
from zoo.gym.rounds.privacy.contribution import read_values
from zoo.gym.rounds.privacy.sealing import info_for, keep_round_key, load_round_key, new_key
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.contributing import own_contribution
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, create_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name, describe
from zoo.models.fixed_factor import fixed_factor


def no_noise(total: object, promised: object, *, threads: object) -> None:
    """Stands for the noise where a test looks at the sum."""


@pytest.mark.slow
def test_sum_without_noise_is_the_mean_of_clipped_numbers(
    storage: FolderStorage,
    base: Path,
    private_sources: Sources,
    private_manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private, "add_noise", no_noise)
    run_round(storage, base, private_sources, private_manifest)
    found = publish_private(storage, LOG, force=True)

    opened, promised = open_round(storage), private_manifest.privacy
    assert promised
    files = [own_contribution(opened, who).file.with_name("values") for who in private_sources]
    steps = [read_values(file, private_manifest, promised) for file in files]
    mean = (np.sum(steps, axis=0) / (3 * promised.scale)).astype(np.float32)
    at = 0
    for name in LAYERS:
        tensor = found.delta.tensor(name)
        assert tensor
        b = tensor_parts(found.delta, tensor)["B.values"]
        assert b.reshape(-1).tolist() == mean[at : at + b.size].tolist()
        at += b.size
        A = fixed_factor(promised.seed, name, 2, tensor.shape[1])
        np.testing.assert_allclose(difference(found.delta, tensor), b.T @ A, atol=1e-6)
    assert at == VALUES


@pytest.mark.slow
def test_noise_has_the_recorded_sigma_and_differs_each_time(
    private_round: FolderStorage, private_manifest: Manifest
) -> None:
    found = publish_private(private_round, LOG, force=True)
    record, promised = found.delta.header.privacy, private_manifest.privacy
    assert record
    assert promised
    assert (record.epsilon, record.delta, record.clip) == (10.0, 1e-2, 4.0)
    assert (record.contributors, record.values) == (3, VALUES)
    assert found.report["privacy"] == record.model_dump(mode="json")
    total = np.zeros(20_000, np.int64)
    mechanism.add_noise(total, promised)
    assert np.std(total) / promised.clip_steps == pytest.approx(record.sigma, rel=0.03)
    again = np.zeros(20_000, np.int64)
    mechanism.add_noise(again, promised)
    assert (total != again).mean() > 0.99


@pytest.mark.slow
def test_a_stranger_checks_all_but_the_noisy_sum(
    private_round: FolderStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_private(private_round, LOG, force=True)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "stranger"))
    stranger = FolderStorage(tmp_path / "copy")
    shutil.copytree(private_round.folder, stranger.folder)
    opened = open_round(stranger)
    checks = {one.name: one for one in verify(opened, work_folder(opened.state.id))}
    assert [one for one in checks.values() if one.ok is False] == []
    assert [name for name, one in checks.items() if one.ok is None] == ["noisy sum"]
    assert {"privacy", "factors A", "who is in the sum", "size of the result"} <= checks.keys()
    assert "epsilon 10, delta 0.01, sigma" in checks["privacy"].detail
    assert "result" not in checks  # nothing of it is called recomputed


@pytest.mark.slow
def test_nobody_but_the_maker_reads_a_contribution(private_round: FolderStorage) -> None:
    opened = open_round(private_round)
    values = own_contribution(opened, ALICE).file.with_name("values").read_bytes()
    stored = b"".join(private_round.read(name) or b"" for name in private_round.names("chunks"))
    piece = max((values[at : at + 16] for at in range(25, 400, 4)), key=lambda p: len(set(p)))
    assert piece not in stored


@pytest.mark.slow
def test_a_round_has_one_result(private_round: FolderStorage, private_manifest: Manifest) -> None:
    first = publish_private(private_round, LOG, force=True)
    again = publish_private(private_round, LOG, force=True)
    assert again.delta.digest == first.delta.digest
    assert private_manifest.privacy
    with raises("rounds.round_key_lost"):
        load_round_key(private_manifest.privacy.key, "void")
    with raises("rounds.private_round"):
        publish(private_round, LOG)


@pytest.mark.slow
def test_lost_result_is_stored_again_without_a_new_draw(
    private_round: FolderStorage,
) -> None:
    before = set(private_round.names("chunks"))
    first = publish_private(private_round, LOG, force=True)
    after = set(private_round.names("chunks"))
    for name in after - before:
        (private_round.folder / name).unlink()
    again = publish_private(private_round, LOG, force=True)
    assert (again.delta.digest, set(private_round.names("chunks"))) == (first.delta.digest, after)
    spent = ledger.all_spent(str(ALICE.public))
    assert [one.rounds for one in spent] == [1]


@pytest.mark.slow
def test_copies_count_in_a_private_round(
    storage: FolderStorage, base: Path, private_sources: Sources, private_manifest: Manifest
) -> None:
    sources = {**private_sources, CAROL: private_sources[ALICE]}
    run_round(storage, base, sources, private_manifest)
    found = publish_private(storage, LOG, force=True)
    assert found.refused == {}
    assert len(found.report["contributions"]) == 3
    points = found.report["rewards"]["points"]
    assert sorted(points.values()) == [333, 333, 334]


def test_a_private_round_made_void_in_any_way_leaves_no_key(
    storage: FolderStorage, private_manifest: Manifest
) -> None:
    assert private_manifest.privacy is not None
    create_round(storage, private_manifest, LOG)
    close_phase(storage, LOG)
    assert close_phase(storage, LOG).phase is Phase.VOID  # extended once, still nobody
    with raises("rounds.round_key_lost"):
        load_round_key(private_manifest.privacy.key, "void")


@pytest.mark.slow
def test_seal_for_another_contributor_is_refused_by_word(
    storage: FolderStorage,
    base: Path,
    private_sources: Sources,
    private_manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def info(round_id: str, key: str) -> bytes:
        return info_for(round_id, str(ALICE.public) if key == str(CAROL.public) else key)

    with monkeypatch.context() as patch:
        patch.setattr("zoo.gym.rounds.privacy.sealing.info_for", info)
        run_round(storage, base, private_sources, private_manifest)
    found = publish_private(storage, LOG, force=True)
    reason = "contribution: expected a message sealed to the round's key by this contributor"
    assert list(found.refused) == [CAROL.public]
    assert found.refused[CAROL.public].startswith(reason)
    opened = open_round(storage)
    assert set(opened.state.refused) == {CAROL.public}
    checks = {one.name: one for one in verify(opened, work_folder(opened.state.id))}
    assert "1 refused by the maker's word alone" in checks["who is in the sum"].detail
    assert all(one.ok is not False for one in checks.values())


@pytest.mark.slow
def test_a_changed_chunk_is_refused_by_name_and_the_rest_counts(
    private_round: FolderStorage,
) -> None:
    file = own_contribution(open_round(private_round), ALICE).file
    chunk = chunk_name(describe(file)[1][0])
    content = private_round.read(chunk) or b""
    private_round.replace(chunk, content[:-1] + bytes([content[-1] ^ 1]))
    found = publish_private(private_round, LOG, force=True)
    assert list(found.refused) == [ALICE.public]
    assert "expected its digest, got other bytes" in found.refused[ALICE.public]
    assert found.report["privacy"]["contributors"] == 2


@pytest.mark.slow
def test_too_few_contributions_draw_nothing(
    private_round: FolderStorage, private_manifest: Manifest
) -> None:
    shutil.rmtree(private_round.folder / "chunks")
    with raises("rounds.no_result_possible", "expected 2 contributions, got 0 of 2"):
        publish_private(private_round, LOG, force=True)
    name = open_round(private_round).state.id
    assert ledger.report_of(name) is None
    assert all(one.draws == 1 for one in ledger.all_spent())  # what contributors noted themselves

    with raises("rounds.void", "is void: 0 of 2 contributions count"):
        publish_private(private_round, LOG, force=True, void=True)
    assert open_round(private_round).state.phase is Phase.VOID
    assert private_manifest.privacy
    with raises("rounds.round_key_lost"):
        load_round_key(private_manifest.privacy.key, "void")


@pytest.mark.slow
def test_noise_above_signal_is_refused_and_spends_nothing(
    private_round: FolderStorage,
) -> None:
    with raises("rounds.noise_too_large") as caught:
        publish_private(private_round, LOG)
    assert caught.value.hint
    assert "--force publishes it" in caught.value.hint
    assert ledger.report_of(open_round(private_round).state.id) is None


@pytest.mark.slow
def test_program_cut_before_the_note_spends_again(
    private_round: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **more: object) -> None:
        raise StorageError("no space left on device")

    one = ledger.all_spent(str(ALICE.public))[0]
    assert (one.rounds, one.draws) == (1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(private, "write_private_result", full)
        with pytest.raises(StorageError):
            publish_private(private_round, LOG, force=True)
    with monkeypatch.context() as patch:
        patch.setattr(private, "store_all", full)
        with pytest.raises(StorageError):
            publish_private(private_round, LOG, force=True)
    twice = ledger.all_spent(str(ALICE.public))[0]
    assert (twice.rounds, twice.draws) == (1, 2)
    assert twice.epsilon > one.epsilon
    folder = work_folder(open_round(private_round).state.id)
    drawn = (folder / "result.safetensors").read_bytes()
    found = publish_private(private_round, LOG, force=True)
    assert found.delta.path.read_bytes() == drawn
    assert ledger.all_spent(str(ALICE.public)) == [twice]


@pytest.mark.slow
def test_a_result_that_was_drawn_and_lost_is_not_drawn_again(
    private_round: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **more: object) -> None:
        raise StorageError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(private, "store_all", full)
        with pytest.raises(StorageError):
            publish_private(private_round, LOG, force=True)
    file = work_folder(open_round(private_round).state.id) / "result.safetensors"
    file.unlink()
    with raises("rounds.drawn_lost"):
        publish_private(private_round, LOG, force=True)


@pytest.mark.slow
def test_a_result_that_was_made_up_is_named(
    storage: FolderStorage,
    base: Path,
    private_sources: Sources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def huge(total: Any, promised: object, *, threads: object) -> None:
        total += 1 << 24

    def other_seed(*given: object) -> object:
        return mechanism_parts("0" * 64, *given[1:])  # type: ignore[arg-type]

    mechanism_parts = mechanism.fixed_parts
    manifest = private_terms(base, privacy(keep_round_key(new_key())))
    run_round(storage, base, private_sources, manifest)
    with monkeypatch.context() as patch:
        patch.setattr(private, "add_noise", huge)
        patch.setattr(mechanism, "fixed_parts", other_seed)
        publish_private(storage, LOG, force=True)
    opened = open_round(storage)
    failed = {one.name for one in verify(opened, work_folder(opened.state.id)) if one.ok is False}
    assert failed == {"factors A", "size of the result"}


@pytest.mark.slow
def test_file_uploaded_after_the_result_changes_nothing(
    private_round: FolderStorage, tmp_path: Path
) -> None:
    name = chunk_name(open_round(private_round).state.reveals[CAROL.public].chunks)
    late = private_round.read(name) or b""
    (private_round.folder / name).unlink()
    publish_private(private_round, LOG, force=True)
    (private_round.folder / name).write_bytes(late)
    checks = {one.name: one for one in verify(open_round(private_round), tmp_path)}
    assert [one for one in checks.values() if one.ok is False] == []
    assert "1 of 3 refused by the maker's word alone" in checks["missing files"].detail
