"""The result of a round: what it is, that everybody gets it, and that changes are named."""

import shutil
from json import loads
from pathlib import Path

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import LAYERS
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.rebuild import difference
from zoo.gym.rounds.compute import aggregate
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.result import Report
from zoo.gym.rounds.compute.verify import published_report, verify
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.rules.aggregate import TOO_SHORT, Selection, select
from zoo.gym.rounds.session.contributing import own_contribution
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name, describe
from zoo.gym.signing import canonical


@pytest.mark.slow
@pytest.mark.parametrize("form", ["signs", "float"])
def test_the_mean_is_the_mean_of_the_contributions(
    form: str, storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, sources, manifest.model_copy(update={"form": form}))
    found = publish(storage, LOG)

    opened = open_round(storage)
    own = [load_delta(path) for path in work_folder(opened.state.id).glob("?" * 64)]
    assert len(own) == 3
    for name in LAYERS:
        parts = [difference(one, tensor) for one in own if (tensor := one.tensor(name))]
        tensor = found.delta.tensor(name)
        assert tensor
        mean = np.mean(parts, axis=0)
        lost = np.abs(difference(found.delta, tensor) - mean)
        assert lost.max() <= np.abs(mean).max() / 250  # half a step of 8 bits, and float16
    assert found.report.weights == [1.0, 1.0, 1.0]
    assert opened.state.result == found.report.result.digest


@pytest.mark.slow
def test_a_stranger_gets_the_same_bytes(
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_round(storage, base, sources, manifest)
    published = publish(storage, LOG)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "stranger"))
    stranger = FolderStorage(tmp_path / "copy")
    shutil.copytree(storage.folder, stranger.folder)
    opened = open_round(stranger)

    checks = list(verify(opened, work_folder(opened.state.id), threads=1))
    assert [check for check in checks if not check.ok] == []
    assert {"result", "Gram matrix", "weights", "refusals"} <= {check.name for check in checks}
    again = work_folder(opened.state.id) / "result.safetensors"
    assert again.read_bytes() == published.delta.path.read_bytes()


@pytest.mark.slow
def test_publishing_again_changes_nothing(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, sources, manifest)
    first = publish(storage, LOG)
    size = len(open_round(storage).entries)
    assert publish(storage, LOG).report == first.report
    assert len(open_round(storage).entries) == size


@pytest.mark.slow
def test_a_copy_does_not_count_and_the_first_commitment_does(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, {**sources, CAROL: sources[ALICE]}, manifest)
    report = publish(storage, LOG).report

    said = f"a copy of the contribution of {ALICE.public.fingerprint}, earlier in the log"
    assert report.refused == {CAROL.public: said}
    assert set(open_round(storage).state.accepted) == {ALICE.public, BOB.public}
    assert report.points == {ALICE.public: 500, BOB.public: 500}  # as without the copy


@pytest.mark.slow
def test_outsized_contribution_is_refused_by_the_rule(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    long = fine_tune(tmp_path / "long", 9, size=30.0)
    caps = manifest.caps.model_copy(update={"value": 1000.0})
    terms = manifest.model_copy(update={"form": "float", "caps": caps, "method": "norm_clip"})
    run_round(storage, base, {**sources, CAROL: long}, terms)
    with raises("rounds.too_few", "expected at least 3 that count, got 2: refused"):
        publish(storage, LOG, least=3)
    assert open_round(storage).state.phase is Phase.COMPUTE
    report = publish(storage, LOG, least=2).report
    assert list(report.refused) == [CAROL.public]
    assert set(report.counted) == {ALICE.public, BOB.public}
    assert len(report.contributions) == 3


@pytest.mark.slow
def test_changed_contribution_is_refused_and_the_rest_counts(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, sources, manifest)
    file = own_contribution(open_round(storage), ALICE).file
    chunk = chunk_name(describe(file)[1][0])
    content = storage.read(chunk) or b""
    storage.replace(chunk, content[:-1] + bytes([content[-1] ^ 1]))
    report = publish(storage, LOG).report

    assert list(report.refused) == [ALICE.public]
    assert "expected its digest, got other bytes" in report.refused[ALICE.public]
    assert {key for key, _ in report.contributions} == {BOB.public, CAROL.public}


@pytest.mark.slow
def test_damaged_local_copy_is_fetched_again(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, sources, manifest)
    publish(storage, LOG)
    opened = open_round(storage)
    copy = work_folder(opened.state.id) / opened.state.reveals[ALICE.public].digest
    copy.write_bytes(copy.read_bytes()[:-1])
    checks = list(verify(opened, work_folder(opened.state.id)))
    assert [check for check in checks if not check.ok] == []


@pytest.mark.slow
def test_a_published_result_that_was_made_up_is_named(
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def favours(*given: object, **more: object) -> Selection:
        found = select(*given, **more)  # type: ignore[arg-type]
        assert found.weighing
        found.weighing.weights[0] = 5
        return found

    run_round(storage, base, sources, manifest)
    with monkeypatch.context() as patch:
        patch.setattr(aggregate, "select", favours)
        publish(storage, LOG)
    opened = open_round(storage)
    failed = {one.name for one in verify(opened, work_folder(opened.state.id)) if not one.ok}
    assert failed == {"weights", "rewards", "standings", "result"}


LIES: dict[str, tuple[dict[str, object], str]] = {
    "another weight of no change": ({"rest": 123456.0}, "weight of no change"),
    "a whole number": ({"rest": 0}, "weight of no change"),
    "truth for a weight": ({"weights": [True, 1.0, 1.0]}, "weights"),
    "a factor": ({"refit": 8.0}, "re-fit"),
    "another field": ({"winner": "maker"}, "fields of the report"),
    "a promise of privacy": ({"privacy": None}, "fields of the report"),
    "no list": ({"refused": None}, "published files"),
    "no digest": ({"gram": "../log"}, "published files"),
    "no standings": ({"standings": None}, "published files"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LIES)
def test_a_report_that_lies_fails_by_the_name_of_its_field(
    case: str,
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes, named = LIES[case]
    told = Report.as_bytes
    run_round(storage, base, sources, manifest)
    with monkeypatch.context() as patch:
        lied = lambda report: canonical({**loads(told(report)), **changes})  # noqa: E731
        patch.setattr(Report, "as_bytes", lied)
        publish(storage, LOG)
    opened = open_round(storage)
    failed = [one.name for one in verify(opened, work_folder(opened.state.id)) if not one.ok]
    assert failed == [named]


@pytest.mark.slow
def test_a_refusal_that_is_not_in_the_log_leaves_the_report_compared(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, sources, manifest)
    publish(storage, LOG)
    opened = open_round(storage)
    chunk = chunk_name(opened.state.reveals[ALICE.public].chunks)
    content = storage.read(chunk)
    assert content is not None
    storage.replace(chunk, content[:-1] + bytes([content[-1] ^ 1]))
    (tmp_path / "eve").mkdir()
    checks = {check.name: check.ok for check in verify(opened, tmp_path / "eve")}
    assert [checks[name] for name in ("contributions", "rule", "refusals", "result")] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.slow
def test_a_missing_gram_matrix_leaves_the_report_compared(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, sources, manifest)
    publish(storage, LOG)
    opened = open_round(storage)
    (storage.folder / chunk_name(str(published_report(opened)["gram"]))).unlink()
    (tmp_path / "eve").mkdir()
    checks = {check.name: check.ok for check in verify(opened, tmp_path / "eve")}
    assert checks.pop("published files") is False
    assert checks["Gram matrix"] is True
    assert set(checks.values()) <= {True, None}


@pytest.mark.slow
def test_too_few_contributions_are_no_round(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, dict.fromkeys(sources, sources[ALICE]), manifest)
    with raises("rounds.no_result_possible", "expected 2 contributions, got 1 of 2"):
        publish(storage, LOG)
    assert open_round(storage).state.phase is Phase.COMPUTE


@pytest.mark.slow
def test_too_few_contributions_void_the_round(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, dict.fromkeys(sources, sources[ALICE]), manifest)
    with raises("rounds.void", r"is void: 1 of 2 contributions count; refused .*a copy"):
        publish(storage, LOG, void=True)
    state = open_round(storage).state
    assert (state.phase, state.reason) == (Phase.VOID, "1 of 2 contributions count")
    assert state.refused.keys() == {BOB.public, CAROL.public}


@pytest.mark.slow
def test_a_published_round_is_not_made_void(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    run_round(storage, base, sources, manifest)
    publish(storage, LOG)
    for reveal in open_round(storage).state.reveals.values():
        (storage.folder / chunk_name(reveal.chunks)).unlink()
        (work_folder(open_round(storage).state.id) / reveal.digest).unlink()
    with raises("rounds.no_result_possible", "got 0 of 2"):
        publish(storage, LOG, void=True)
    assert open_round(storage).state.phase is Phase.PUBLISHED


@pytest.mark.slow
def test_nearly_nothing_is_refused_and_nobody_is_a_copy_of_it(
    storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    """Carol commits first, to a change like Bob's that is five thousand times smaller."""
    sizes = {CAROL: (2, 2e-6), ALICE: (1, 0.01), BOB: (2, 0.01)}
    sources = {
        who: fine_tune(tmp_path / f"tuned {who.public.fingerprint}", seed, size)
        for who, (seed, size) in sizes.items()
    }
    run_round(storage, base, sources, manifest.model_copy(update={"form": "float"}))
    report = publish(storage, LOG).report
    assert dict(report.refused) == {CAROL.public: TOO_SHORT}
    assert CAROL.public not in dict(report.contributions)
