"""Whole rounds in which one fine-tune comes five times: together the five earn what one would.

Copies are found by their cosine. Below its limit they are contributions of their own: what five of
them earn then is measured and printed, so that nobody takes the limit for a proof.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.compute.conftest import run_round
from tests.gym.rounds.compute.test_measured import BETTER, gate, record
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, EVALUATION, LOG, person
from zoo.gym.rounds.compute.aggregate import compute
from zoo.gym.rounds.compute.collect import Work
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.contribution import write
from zoo.gym.rounds.protocol.manifest import Evaluation, Manifest
from zoo.gym.rounds.session.contributing import prepare, reveal, send_commitment, send_reveal
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, create_round, take
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.signing import OwnKey, PublicKey

COPIERS = [person(f"copier {number}") for number in range(4)]
HONEST = (ALICE, BOB, CAROL)
POOL = 3000  # 1000 for each of three

SCALES: dict[str, tuple[float, float]] = {
    "the same": (1.0, 0.0),
    "half as long": (0.5, 0.0),
    "twice as long": (2.0, 0.0),
    "with a tenth of noise": (1.0, 0.1),  # a cosine of .995, and 3 % other signs
}
APART = (1.0, 0.35)
"""A cosine of .944, and 11 % other signs: beyond both limits."""


def copy_of(folder: Path, seed: int, scale: float, noise: float) -> Path:
    """Writes Alice's change times a number, and noise as a share of its size."""
    shapes = {name: SHAPES[name] for name in LAYERS}
    own, other = (disk.random_arrays(shapes, number, 0.01) for number in (1, 100 + seed))
    change = {name: scale * own[name] + noise * other[name] for name in own}
    arrays = {name: value.astype(np.float32) for name, value in change.items()}
    return disk.write_model(folder, disk.plus(disk.random_arrays(SHAPES, 0), arrays))


def sources(folder: Path, scale: float, noise: float) -> dict[OwnKey, Path]:
    found = {who: fine_tune(folder / f"{seed}", seed) for seed, who in enumerate(HONEST, 1)}
    for number, who in enumerate(COPIERS):
        found[who] = copy_of(folder / f"copy{number}", number, scale, noise)
    return found


def terms(manifest: Manifest, **changes: object) -> Manifest:
    return manifest.model_copy(update={"most": 9, "pool": POOL, **changes})


def together(points: Mapping[PublicKey, int]) -> int:
    """Returns what Alice and those who copied her earn."""
    return sum(points.get(who.public, 0) for who in (ALICE, *COPIERS))


@pytest.mark.parametrize("form", ["signs", "float"])
@pytest.mark.parametrize("case", SCALES)
@pytest.mark.slow
def test_five_copies_earn_as_one_by_weight(
    case: str,
    form: str,
    storage: FolderStorage,
    base: Path,
    manifest: Manifest,
    tmp_path: Path,
) -> None:
    run_round(storage, base, sources(tmp_path, *SCALES[case]), terms(manifest, form=form))
    report = publish(storage, LOG).report
    assert report.points == dict.fromkeys((who.public for who in HONEST), 1000)
    assert report.refused.keys() == {who.public for who in COPIERS}
    assert all("a copy of the contribution of" in why for why in report.refused.values())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["signs", "float"])
def test_five_copies_earn_as_one_by_what_the_gate_measured(
    form: str, storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    given = terms(manifest, form=form, evaluation=Evaluation.model_validate(EVALUATION))
    run_round(storage, base, sources(tmp_path, *SCALES["with a tenth of noise"]), given)
    for who in (*HONEST, *COPIERS):  # a gate that knows no copies
        gate(storage, who, BETTER)
    take(storage, LOG)
    state = open_round(storage).state
    digest = compute(Work(state, storage, work_folder(state.id))).report.result.digest
    none = {"previous": None, "refusals": None, "triggers": None}
    record(storage, "result", digest=digest, base=BETTER, **none)
    for who in (*HONEST, *COPIERS):
        record(storage, "value", contributor=str(who.public), result=digest, value=0.5)
    report = publish(storage, LOG).report
    assert report.paid_by == "aumann_shapley"
    assert report.points == dict.fromkeys((who.public for who in HONEST), 1000)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["signs", "float"])
def test_copies_beyond_the_limit_count_as_five_and_no_more(
    form: str, storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    run_round(storage, base, sources(tmp_path, *APART), terms(manifest, form=form))
    report = publish(storage, LOG).report
    assert report.refused == {}
    earned = together(report.points)
    print(f"{form}: five that are no copies earn {earned / 1000:.2f} times as much as one")
    assert earned == pytest.approx(POOL * 5 / 7, abs=5)  # equal parts of seven, 2.14 times 1000
    assert sum(report.points.values()) == POOL


@pytest.mark.slow
@pytest.mark.parametrize("form", ["signs", "float"])
def test_nothing_earns_nothing(
    form: str,
    storage: FolderStorage,
    base: Path,
    manifest: Manifest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unchecked(*given: object) -> None:
        """Stands for a program that sends zeros, which ours refuses to code."""

    given = terms(manifest, form=form)
    for name in ("check_names", "_check_zeros", "_check_change"):
        monkeypatch.setattr(write, name, unchecked)
    run_round(storage, base, {**sources(tmp_path, 1, 0), BOB: base, COPIERS[0]: base}, given)
    report = publish(storage, LOG).report
    assert {report.refused[who.public] for who in (BOB, COPIERS[0])} == {
        "expected a change of the base, got none"
    }
    assert report.points == {ALICE.public: 1500, CAROL.public: 1500}


@pytest.mark.slow
def test_who_reveals_late_or_not_at_all_earns_nothing(
    storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    create_round(storage, terms(manifest), LOG)
    people = sources(tmp_path, *APART)
    for who, source in people.items():
        send_commitment(*prepare(open_round(storage), source, base, who), storage)
    close_phase(storage, LOG)
    late = reveal(open_round(storage), COPIERS[0])
    for who in HONEST:
        send_reveal(*reveal(open_round(storage), who), storage)
    close_phase(storage, LOG)
    send_reveal(*late, storage)
    taken = take(storage, LOG)
    assert [why for _, why in taken.refused] == [
        "round reveal: expected in phase reveal, got it in compute"
    ]
    report = publish(storage, LOG).report
    assert report.points == dict.fromkeys((who.public for who in HONEST), 1000)
