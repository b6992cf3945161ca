"""What earlier rounds say of keys counts in later ones."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.compute.conftest import run_round
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.protocol.people import LOG, NEWCOMERS, person
from zoo.core import digest
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.collect import NoResultError, TooFewError
from zoo.gym.rounds.compute.eligibility import fill_quorum
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.payouts.reputation import Reputation, read_standings, write_standings
from zoo.gym.rounds.protocol.manifest import Manifest, Newcomers
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.newcomers import new_nonce
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import create_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name, read_chunk
from zoo.gym.signing import OwnKey, PublicKey

PEOPLE = [person(f"contributor {number}") for number in range(7)]
KEYS = [who.public for who in PEOPLE]
JUNK = PEOPLE[-1]


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    return {str(n): fine_tune(tmp_path / str(n), n + 1) for n in range(len(PEOPLE))}


def ended(
    storage: FolderStorage,
    base: Path,
    sources: Mapping[str, Path],
    manifest: Manifest,
    known: Mapping[PublicKey, Reputation],
    **changes: object,
) -> FolderStorage:
    """Runs a round of all to its result, with standings."""
    content = write_standings(known)
    storage.write(chunk_name(digest(content)), content)
    terms = {**NEWCOMERS, "standings": digest(content), "nonce": new_nonce()}
    given = {"newcomers": Newcomers.model_validate(terms), "quorum": 2, "most": 9, **changes}
    people = dict(zip(PEOPLE, sources.values(), strict=True))
    run_round(storage, base, people, manifest.model_copy(update=given))
    publish(storage, LOG)
    return storage


@pytest.mark.slow
def test_a_newcomer_of_a_fifth_is_drawn_and_the_others_wait(
    storage: FolderStorage, base: Path, sources: dict[str, Path], manifest: Manifest
) -> None:
    known = dict.fromkeys(KEYS[:4], Reputation(0.5, 3))
    ended(storage, base, sources, manifest, known)
    opened = open_round(storage)
    report = publish(storage, LOG).report

    assert len(report.contributions) == 5  # four, and one of three newcomers
    assert report.newcomers
    (drawn,) = report.newcomers
    assert drawn in KEYS[4:]
    waiting = dict(report.refused)
    assert waiting.keys() == set(KEYS[4:]) - {drawn}
    assert set(waiting.values()) == {
        "not drawn: keys with fewer than 3 accepted rounds have 20% of the seats"
    }
    assert report.points[drawn] <= 200
    after = read_standings(read_chunk(storage, report.standings))
    assert after[drawn] == Reputation(0.1, 1)
    assert all(after[key] == Reputation(0.55, 4) for key in KEYS[:4])
    assert all(after[key] == Reputation() for key in waiting)
    assert all(check.ok for check in verify(opened, work_folder(opened.state.id)))


@pytest.mark.slow
def test_if_all_are_new_there_is_no_cap(
    storage: FolderStorage, base: Path, sources: dict[str, Path], manifest: Manifest
) -> None:
    ended(storage, base, sources, manifest, {})
    report = publish(storage, LOG).report
    assert (len(report.contributions), report.newcomers) == (7, None)


@pytest.mark.slow
def test_newcomers_fill_the_quorum_with_a_fifth_of_the_weight(
    storage: FolderStorage, base: Path, sources: dict[str, Path], manifest: Manifest
) -> None:
    ended(storage, base, sources, manifest, {KEYS[0]: Reputation(0.5, 3)}, quorum=3)
    report = publish(storage, LOG).report

    assert report.newcomers
    assert len(report.newcomers) == 2  # floor(.2 / .8) is 0 of 3
    assert fill_quorum(report, open_round(storage).manifest)
    assert report.points[KEYS[0]] == 800
    assert report.weights == [1 if key == KEYS[0] else 0.125 for key, _ in report.contributions]


@pytest.mark.slow
def test_a_rule_without_weights_gives_newcomers_no_more_seats(
    storage: FolderStorage, base: Path, sources: dict[str, Path], manifest: Manifest
) -> None:
    known = {KEYS[0]: Reputation(0.5, 3)}
    with pytest.raises(TooFewError, match="got 1 of 3"):
        ended(storage, base, sources, manifest, known, quorum=3, method="median")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "method", "said"),
    [
        ({person("absent").public: Reputation(0.5, 3)}, "mean", "nobody contributes whom"),
        ({}, "federated_average", "all numbers of examples are 0"),
        (dict.fromkeys(KEYS, Reputation(0.0, 3)), "weighted_mean", "all reputations are 0"),
        (
            {KEYS[0]: Reputation(0.0, 3), person("absent").public: Reputation(0.5, 3)},
            "weighted_mean",
            "all reputations are 0",
        ),
    ],
)
def test_round_without_deciding_weight_can_be_voided(
    storage: FolderStorage,
    base: Path,
    sources: dict[str, Path],
    manifest: Manifest,
    known: Mapping[PublicKey, Reputation],
    method: str,
    said: str,
) -> None:
    with pytest.raises(NoResultError, match="expected"):
        ended(storage, base, sources, manifest, known, method=method)
    with raises("rounds.void", said):
        publish(storage, LOG, void=True)
    assert open_round(storage).state.phase is Phase.VOID


@pytest.mark.slow
def test_the_weighted_mean_weighs_by_reputation(
    storage: FolderStorage, base: Path, sources: dict[str, Path], manifest: Manifest
) -> None:
    known = {key: Reputation(number / 8, 3) for number, key in enumerate(KEYS)}
    ended(storage, base, sources, manifest, known, method="weighted_mean")
    report = publish(storage, LOG).report
    assert report.weights is not None
    weights = {key: w for (key, _), w in zip(report.contributions, report.weights, strict=True)}
    assert weights == {key: number / 8 for number, key in enumerate(KEYS)}


def test_a_round_does_not_start_from_a_reputation_beyond_1(
    storage: FolderStorage, manifest: Manifest
) -> None:
    content = write_standings({KEYS[0]: Reputation(1e30, 3)})
    terms = {**NEWCOMERS, "standings": digest(content), "nonce": new_nonce()}
    given = manifest.model_copy(update={"newcomers": Newcomers.model_validate(terms)})
    with raises("rounds.bad_standings", "expected a reputation of 0 to 1"):
        create_round(storage, given, LOG, content)
    assert not storage.folder.exists()


HOPELESS: dict[str, tuple[Mapping[PublicKey, Reputation], dict[str, object], str]] = {
    "no reputation": (
        dict.fromkeys(KEYS, Reputation(0.0, 3)),
        {"method": "weighted_mean"},
        "method: expected standings with a reputation above 0",
    ),
    "a reputation of newcomers alone": (
        {KEYS[0]: Reputation(0.0, 3), KEYS[1]: Reputation(0.5, 1)},
        {"method": "weighted_mean"},
        "method: expected standings with a reputation above 0",
    ),
    "too few who are not new": (  # four, and floor(.2 / .8 * 4) = 1
        dict.fromkeys(KEYS[:4], Reputation(0.5, 3)),
        {"method": "median", "quorum": 6},
        "quorum: expected at most 5 under the rule median, got 6",
    ),
}


@pytest.mark.parametrize("case", HOPELESS)
def test_round_with_hopeless_standings_does_not_start(
    case: str, storage: FolderStorage, manifest: Manifest
) -> None:
    known, changes, said = HOPELESS[case]
    with pytest.raises(InputError, match=said):
        create_round(storage, _after(manifest, known, changes), LOG, write_standings(known))
    assert not storage.folder.exists()


POSSIBLE: dict[str, tuple[Mapping[PublicKey, Reputation], dict[str, object]]] = {
    "five of five": (dict.fromkeys(KEYS[:4], Reputation(0.5, 3)), {"quorum": 5}),
    "all are new": ({KEYS[0]: Reputation(0.5, 1)}, {"quorum": 6}),
    "newcomers without a cap": (
        dict.fromkeys(KEYS[:4], Reputation(0.5, 3)),
        {"quorum": 6, "share": 1.0},
    ),
    "a rule with weights": (
        dict.fromkeys(KEYS[:4], Reputation(0.5, 3)),
        {"quorum": 6, "method": "weighted_mean"},
    ),
    "a newcomer's reputation": ({KEYS[1]: Reputation(0.5, 1)}, {"method": "weighted_mean"}),
}


@pytest.mark.parametrize("case", POSSIBLE)
def test_a_round_that_its_standings_let_end_starts(
    case: str, storage: FolderStorage, manifest: Manifest
) -> None:
    known, changes = POSSIBLE[case]
    given = _after(manifest, known, {"method": "median", **changes})
    assert create_round(storage, given, LOG, write_standings(known))


def _after(
    manifest: Manifest, known: Mapping[PublicKey, Reputation], changes: Mapping[str, object]
) -> Manifest:
    """Returns the terms of a round after standings."""
    found = {**NEWCOMERS, "standings": digest(write_standings(known)), "nonce": new_nonce()}
    found |= {name: changes[name] for name in changes if name == "share"}
    rest = {name: value for name, value in changes.items() if name != "share"}
    newcomers = Newcomers.model_validate(found)
    return manifest.model_copy(update={"newcomers": newcomers, "most": 9, **rest})


def _junk_and_others(folder: Path) -> dict[OwnKey, Path]:
    """Returns six fine-tunes towards one change, and noise of about their size."""
    shapes = {name: SHAPES[name] for name in LAYERS}
    common, found = disk.random_arrays(shapes, 77, 0.01), dict[OwnKey, Path]()
    for number, who in enumerate(PEOPLE):
        own = disk.random_arrays(shapes, number + 1, 0.011 if who is JUNK else 0.004)
        changes = own if who is JUNK else disk.plus(own, common)
        arrays = disk.plus(disk.random_arrays(SHAPES, 0), changes)
        found[who] = disk.write_model(folder / str(number), arrays)
    return found


TAKEN = {"byzantine_robust": 6, "multi_krum": 5, "krum": 1}
"""Of seven with f = 2: all near the selected ones, the five selected, the one selected."""


@pytest.mark.slow
@pytest.mark.parametrize("method", TAKEN)
def test_a_contribution_without_weight_is_no_accepted_round(
    method: str, storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    given = {"method": method, "f": None, "quorum": 5, "most": 9}
    run_round(storage, base, _junk_and_others(tmp_path), manifest.model_copy(update=given))
    report = publish(storage, LOG).report
    assert report.weights
    weights = dict(zip((key for key, _ in report.contributions), report.weights, strict=True))
    after = read_standings(read_chunk(storage, report.standings))
    assert weights[JUNK.public] == 0
    assert {key: one.accepted for key, one in after.items()} == {
        key: int(weight > 0) for key, weight in weights.items()
    }
    assert sum(one.accepted for one in after.values()) == TAKEN[method]
