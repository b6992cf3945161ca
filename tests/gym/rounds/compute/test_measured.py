"""Signed figures act on the result, for everybody alike, without a model."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.protocol.people import (
    ALICE,
    BOB,
    CAROL,
    EVALUATION,
    GATE,
    LOG,
    digest_of,
    use,
)
from zoo.gym.cli import main
from zoo.gym.delta.rebuild import difference
from zoo.gym.rounds.compute.aggregate import choose, compute
from zoo.gym.rounds.compute.collect import Work
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Evaluation, Manifest
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import leave, take, writer_of
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.signing import OwnKey, sign

LOSSES = [3.0, 2.9, 2.8, 2.7, 2.6, 2.5, 2.6, 2.7]  # the sixth factor, 4, is best
BETTER = {"rows": 100, "mean": -0.1, "deviation": 0.2}
WORSE = {"rows": 100, "mean": 0.1, "deviation": 0.2}


def record(storage: FolderStorage, kind: str, **values: Any) -> None:
    """Leaves a record of the gate."""
    body = objects.body_of(open_round(storage).state.id, kind=kind, values=values)
    leave(storage, sign(GATE, objects.RECORD, body))


def gate(storage: FolderStorage, who: OwnKey, loss: dict[str, float]) -> None:
    digest = open_round(storage).state.reveals[who.public].digest
    key = str(who.public)
    record(storage, "gate", contributor=key, digest=digest, loss=loss, reason=None)


def measured(storage: FolderStorage, values: dict[OwnKey, float], together: float = -0.1) -> None:
    """Leaves all records of a round in which Carol does harm."""
    for who, loss in ((ALICE, BETTER), (BOB, {**BETTER, "mean": -0.05}), (CAROL, WORSE)):
        gate(storage, who, loss)
    take(storage, LOG)
    state = open_round(storage).state
    computed = compute(Work(state, storage, work_folder(state.id)))
    digest = computed.report.result.digest
    none = {"previous": None, "refusals": None, "triggers": None}
    record(storage, "result", digest=digest, base={**BETTER, "mean": together}, **none)
    for who, value in values.items():
        record(storage, "value", contributor=str(who.public), result=digest, value=value)


@pytest.mark.slow
def test_the_factor_multiplies_the_result(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    terms = manifest.model_copy(update={"refit": digest_of("public"), "form": "float"})
    run_round(storage, base, sources, terms)
    record(storage, "refit", losses=LOSSES)
    found = publish(storage, LOG)
    opened = open_round(storage)
    folder = work_folder(opened.state.id)
    plain = choose(Work(opened.state, storage, folder)).write(folder / "plain.safetensors")

    assert found.report.refit == 4.0
    for tensor in found.delta.header.tensors:
        other = plain.tensor(tensor.name)
        assert other
        wanted = 4 * difference(plain, other)
        lost = np.abs(difference(found.delta, tensor) - wanted)
        assert lost.max() <= np.abs(wanted).max() / 100  # steps of 8 bits, twice
    assert all(check.ok for check in verify(opened, folder))


@pytest.mark.slow
def test_failed_gate_earns_nothing_and_quality_weighs_points(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    terms = manifest.model_copy(update={"evaluation": Evaluation(**EVALUATION)})
    run_round(storage, base, sources, terms)
    measured(storage, {ALICE: 0.5, BOB: 0.5})
    report = publish(storage, LOG).report

    assert {key for key, _ in report.contributions} == {ALICE.public, BOB.public}
    assert list(report.refused) == [CAROL.public]
    # gains .1 and .05, lower median .05: both have a quality of 1, and equal values
    assert report.points == {ALICE.public: 500, BOB.public: 500}
    opened = open_round(storage)
    assert opened.state.refused == report.refused
    assert all(check.ok for check in verify(opened, work_folder(opened.state.id)))


@pytest.mark.slow
@pytest.mark.parametrize(("together", "warned"), [(-0.1, False), (-0.07, True)])
def test_result_worse_than_one_contribution_warns(
    together: float,
    warned: bool,
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terms = manifest.model_copy(update={"evaluation": Evaluation(**EVALUATION)})
    run_round(storage, base, sources, terms)
    measured(storage, {ALICE: 0.5, BOB: 0.5}, together)
    use(LOG)
    assert main(["round", "aggregate", "--round", str(storage.folder)]) == 0
    said = (
        f"note: the result's loss is 0.0700 nats below the base's, worse than that of "
        f"{ALICE.public.fingerprint} alone, 0.1000 nats below"
    )
    assert (said in capsys.readouterr().err) is warned


@pytest.mark.slow
def test_negative_value_earns_nothing_of_the_whole_pool(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    terms = manifest.model_copy(update={"evaluation": Evaluation(**EVALUATION)})
    run_round(storage, base, sources, terms)
    measured(storage, {ALICE: 0.5, BOB: -0.1})
    assert publish(storage, LOG).report.points == {ALICE.public: 1000, BOB.public: 0}


@pytest.mark.slow
def test_verifying_a_measured_round_imports_no_torch(
    storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    terms = manifest.model_copy(update={"refit": digest_of("public")})
    run_round(storage, base, sources, terms)
    record(storage, "refit", losses=LOSSES)
    publish(storage, LOG)
    code = (
        "import sys; from zoo.gym.cli import main; "
        f"code = main(('round', 'verify', {str(storage.folder)!r})); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "re-fit: 4.0" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_points_shrink_below_the_quality_threshold(
    threshold: float, storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    given = Evaluation.model_validate({**EVALUATION, "quality_threshold": threshold})
    run_round(storage, base, sources, manifest.model_copy(update={"evaluation": given}))
    for who, mean in ((ALICE, -0.1), (BOB, -0.1), (CAROL, -0.04)):
        gate(storage, who, {"rows": 100, "mean": mean, "deviation": 0.01})
    take(storage, LOG)
    state = open_round(storage).state
    digest = compute(Work(state, storage, work_folder(state.id))).report.result.digest
    none = {"previous": None, "refusals": None, "triggers": None}
    record(storage, "result", digest=digest, base=BETTER, **none)
    for who in (ALICE, BOB, CAROL):
        record(storage, "value", contributor=str(who.public), result=digest, value=0.25)
    points = publish(storage, LOG).report.points
    # Carol's quality is .04 / .1, half of the threshold: 1 : 1 : .5 of 1000
    wanted = {0.0: [334, 333, 333], 0.8: [400, 400, 200]}[threshold]
    assert sorted(points.values(), reverse=True) == wanted
    assert points[CAROL.public] == min(wanted) or not threshold


WORD = "there is no result, by the word of the log's writer alone: nobody likes it"
VOID: dict[str, tuple[bool | None, str]] = {
    "the result": (True, "there is no result: the result's held-out loss: expected"),
    "another": (False, "expected a result that fails the gate, got: nobody likes it"),
    "none": (None, WORD),
}


@pytest.mark.slow
@pytest.mark.parametrize("failing", VOID)
def test_round_is_void_by_failed_figures_or_its_writer(
    failing: str, storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest
) -> None:
    terms = manifest.model_copy(update={"evaluation": Evaluation(**EVALUATION)})
    run_round(storage, base, sources, terms)
    for who in sources:
        gate(storage, who, BETTER)
    take(storage, LOG)
    state = open_round(storage).state
    folder = work_folder(state.id)
    if failing != "none":
        found = compute(Work(state, storage, folder)).report.result.digest
        digest = found if failing == "the result" else digest_of("another result")
        none = {"previous": None, "refusals": None, "triggers": None}
        record(storage, "result", digest=digest, base=WORSE, **none)
    with writer_of(storage, LOG) as append:
        append.take()
        append(objects.VOID, reason="nobody likes it")
    check = list(verify(open_round(storage), folder))[-1]
    ok, said = VOID[failing]
    assert (check.name, check.ok) == ("void", ok)
    assert check.detail.startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["before", "after"])
def test_failed_gate_refuses_without_the_file(
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    manifest: Manifest,
    tmp_path: Path,
    gone: str,
) -> None:
    terms = manifest.model_copy(update={"evaluation": Evaluation(**EVALUATION)})
    run_round(storage, base, sources, terms)
    measured(storage, {ALICE: 0.5, BOB: 0.5})
    name = chunk_name(open_round(storage).state.reveals[CAROL.public].chunks)
    chunk = storage.read(name) or b""
    if gone == "before":
        (storage.folder / name).unlink()
    report = publish(storage, LOG).report
    assert "does harm" in report.refused[CAROL.public] or "loss" in report.refused[CAROL.public]
    if gone == "after":
        (storage.folder / name).unlink()
    for number in range(2):
        opened = open_round(storage)
        assert opened.state.refused == report.refused
        folder = tmp_path / f"reader {number}"
        folder.mkdir()
        assert [check for check in verify(opened, folder) if check.ok is False] == []
        storage.write(name, chunk)
