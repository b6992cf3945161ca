"""A gate measures a round with a real model: who counts, the size, the result, and its parts."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rounds.measure.conftest import Measurable
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, GATE, LOG
from zoo.gym.delta.create import create_delta
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.measure.examples import check_file, digest_of
from zoo.gym.rounds.measure.gating import gate
from zoo.gym.rounds.measure.measure import measure, with_inbox
from zoo.gym.rounds.measure.repeat import repeated, values_limit
from zoo.gym.rounds.protocol.records import FACTORS, Gate, Probe, ResultGate
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.chunks import chunk_name, describe
from zoo.gym.signing import PublicKey, sign

pytestmark = pytest.mark.slow


def test_measured_round_refuses_harm_rescales_and_pays_for_gain(
    measurable: Callable[..., Measurable],
) -> None:
    found = measurable()
    measured = found.measure().state.measured
    assert measured.gates.keys() == {ALICE.public, BOB.public, CAROL.public}
    report = publish(found.storage, LOG).report

    assert list(report.refused) == [CAROL.public]
    assert "held-out loss: expected" in report.refused[CAROL.public]
    assert report.refit in FACTORS
    assert report.paid_by == "aumann_shapley"
    assert sum(report.points.values()) == 1000
    assert report.points[ALICE.public] > 0
    assert CAROL.public not in report.points

    # the values add up to the gain of the result
    (values,) = measured.values.values()
    (result,) = measured.results.values()
    assert sum(values.values()) == pytest.approx(-result.base.mean, rel=0.05)

    opened = open_round(found.storage)
    folder = work_folder(opened.state.id)
    assert all(check.ok for check in verify(opened, folder))
    again = list(repeated(opened, folder, found.base))
    assert {check.name for check in again} == {
        "files of examples",
        "re-fit measured",
        "measured contributions",
        "measured result",
        "values",
    }
    assert all(check.ok for check in again), again


def test_file_with_too_few_rows_is_refused_before_it_is_shown(
    measurable: Callable[..., Measurable], rows: dict[str, Path], tmp_path: Path
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(rows["EF"].read_text().splitlines(keepends=True)[:5]))
    found = measurable(refit=sha256(few.read_bytes()).hexdigest())
    before = len(found.storage.names("chunks"))
    with raises("rounds.few_rows", r"few.jsonl: expected at least 10 rows"):
        found.measure(files={**found.sources.files, "refit": few})
    assert len(found.storage.names("chunks")) == before
    assert with_inbox(open_round(found.storage)).measured.shown == {}


def test_file_without_suffix_is_refused_before_it_is_shown(
    measurable: Callable[..., Measurable], tmp_path: Path
) -> None:
    found = measurable()
    bare = tmp_path / "public"
    bare.write_bytes(found.sources.files["refit"].read_bytes())
    with raises("rounds.file_suffix", r"public: expected a name with a suffix"):
        found.measure(files={**found.sources.files, "refit": bare})
    assert with_inbox(open_round(found.storage)).measured.shown == {}


def test_measuring_continues_where_it_was_cut(
    measurable: Callable[..., Measurable], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, left = measurable(), 4

    def cut(*given: object) -> object:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return sign(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("zoo.gym.rounds.measure.measure.sign", cut)
        with pytest.raises(KeyboardInterrupt):
            found.measure()
    assert found.measure().added == 6  # of nine records three were there
    assert found.measure().added == 0
    assert publish(found.storage, LOG).report.refit


def test_a_lying_gate_is_named_by_whoever_measures_again(
    measurable: Callable[..., Measurable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lies(*given: object) -> dict[PublicKey, float]:
        assert given
        return {ALICE.public: 0.0, BOB.public: 1.0}

    found = measurable()
    with monkeypatch.context() as patch:
        patch.setattr("zoo.gym.rounds.measure.measure.values", lies)
        found.measure()
    assert publish(found.storage, LOG).report.points == {ALICE.public: 0, BOB.public: 1000}
    opened = open_round(found.storage)
    again = repeated(opened, work_folder(opened.state.id), found.base)
    assert [check.name for check in again if not check.ok] == ["values"]


def test_a_small_lie_about_small_values_is_named(
    measurable: Callable[..., Measurable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def true(*_: object) -> dict[PublicKey, float]:
        return {ALICE.public: 0.003, BOB.public: 0.001}

    def lies(*_: object) -> dict[PublicKey, float]:
        return {ALICE.public: 0.0021, BOB.public: 0.0019}

    found = measurable()
    with monkeypatch.context() as patch:
        patch.setattr("zoo.gym.rounds.measure.measure.values", lies)
        found.measure()
    publish(found.storage, LOG)
    monkeypatch.setattr("zoo.gym.rounds.measure.repeat.values", true)
    opened = open_round(found.storage)
    again = repeated(opened, work_folder(opened.state.id), found.base)
    assert [check.name for check in again if not check.ok] == ["values"]


def test_gate_that_voids_by_lies_is_found_by_repeating(
    measurable: Callable[..., Measurable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def harmful(*given: Any) -> Gate:
        found = gate(*given)
        assert found.loss is not None
        return found.model_copy(update={"loss": found.loss.model_copy(update={"mean": 5.0})})

    found = measurable()
    with monkeypatch.context() as patch:
        patch.setattr("zoo.gym.rounds.measure.measure.gate", harmful)
        with raises("rounds.no_result_possible", "expected 2 contributions, got 0"):
            found.measure()
    with raises("rounds.void", "is void"):
        publish(found.storage, LOG, void=True)
    opened = open_round(found.storage)
    again = list(repeated(opened, work_folder(opened.state.id), found.base))
    assert [(check.name, check.ok) for check in again] == [
        ("files of examples", True),
        ("measured contributions", False),
        ("measured result", None),
    ]


@pytest.mark.parametrize(
    ("worth", "limit"),
    [([3.0, 0.1], 1e-3), ([0.001, -0.0004], 2e-5), ([-0.002], 4e-5), ([1e-9], 1e-5), ([], 1e-5)],
)
def test_values_may_differ_by_a_fiftieth_of_the_largest(worth: list[float], limit: float) -> None:
    assert values_limit(worth) == pytest.approx(limit)


def test_a_validator_refuses_with_its_reason(measurable: Callable[..., Measurable]) -> None:
    found = measurable(refit=None, validator="checks:ours")

    def heavy(file: Path, base: Path) -> str | None:
        assert file.is_file()
        assert base.is_dir()
        return None if own.digest in file.name else f"only Alice's is wanted\nphase{'!' * 2000}"

    own = open_round(found.storage).state.reveals[ALICE.public]
    with raises("rounds.no_result_possible", "expected 2 contributions, got 1"):
        found.measure(validator=heavy)
    refused = with_inbox(open_round(found.storage)).refused
    said = "the round's own validator: only Alice's is wanted\\x0aphase"
    said = f"{said:!<997}..."
    assert refused == {CAROL.public: refused[CAROL.public], BOB.public: said}


@pytest.mark.parametrize("said", ["held-out loss: expected numbers, got infinity", "too old"])
def test_gate_that_omits_a_loss_is_found_by_repeating(
    said: str, measurable: Callable[..., Measurable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hides(*given: Any) -> Gate:
        found = gate(*given)
        hidden = found.contributor == str(CAROL.public)
        return found.model_copy(update={"loss": None, "reason": said}) if hidden else found

    found = measurable(refit=None)
    monkeypatch.setattr("zoo.gym.rounds.measure.measure.gate", hides)
    found.measure()
    assert publish(found.storage, LOG).report.refused == {CAROL.public: said}
    opened = open_round(found.storage)
    again = repeated(opened, work_folder(opened.state.id), found.base)
    assert [check.name for check in again if not check.ok] == ["measured contributions"]


def test_forged_comparison_and_answers_are_found_by_repeating(
    measurable: Callable[..., Measurable],
    pico: Path,
    tuned: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forged(**fields: Any) -> ResultGate:
        better = fields["previous"].model_copy(update={"mean": -5.0})
        return ResultGate(**{**fields, "previous": better})

    last, prompts = tmp_path / "last.safetensors", tmp_path / "prompts.jsonl"
    create_delta(tuned["carol"], base=pico, out=last)
    prompts.write_text('{"prompt": "Where does Bob live?", "target": "xyzzy"}\n' * 4)
    terms = {"previous": describe(last)[0].digest, "triggers": digest_of(prompts)}
    found = measurable(refit=None, **terms)
    files = {**found.sources.files, "triggers": prompts}
    with monkeypatch.context() as patch:
        patch.setattr("zoo.gym.rounds.measure.measure.ResultGate", forged)
        counts = Probe(prompts=4, base=3, result=2)
        patch.setattr("zoo.gym.rounds.measure.measure.probe", lambda *_: counts)
        found.measure(files=files, previous=last)
    publish(found.storage, LOG)
    opened = open_round(found.storage)
    folder = work_folder(opened.state.id)
    again = list(repeated(opened, folder, found.base, previous=last))
    wrong = [check.name for check in again if not check.ok]
    assert wrong == ["measured against the last result", "triggers"]

    check = next(one for one in repeated(opened, folder, found.base) if not one.ok)
    assert (check.name, check.ok) == ("measured against the last result", None)
    assert check.detail == "its file is needed: --previous FILE"
    with raises("rounds.other_previous", "expected the last result"):
        list(repeated(opened, folder, found.base, previous=prompts))


def test_unusable_last_result_is_refused_before_rows_are_shown(
    measurable: Callable[..., Measurable], tmp_path: Path
) -> None:
    last = tmp_path / "last.safetensors"
    last.write_text("no delta")
    found = measurable(refit=None, previous=describe(last)[0].digest)
    with pytest.raises(InputError, match=r"last.safetensors: not a safetensors file"):
        found.measure(previous=last)
    with raises("rounds.previous_missing"):
        found.measure()
    assert with_inbox(open_round(found.storage)).measured.shown == {}


def test_a_last_result_that_nobody_compares_with_is_refused(
    measurable: Callable[..., Measurable],
) -> None:
    found = measurable(refit=None)
    last = found.sources.files["evaluation"]
    for act in (
        lambda: found.measure(previous=last),
        lambda: list(repeated(open_round(found.storage), last.parent, found.base, previous=last)),
    ):
        with raises("rounds.other_previous", "expected no last result in round a small round"):
            act()


def test_whoever_measures_again_does_not_vouch_for_a_validator(
    measurable: Callable[..., Measurable],
) -> None:
    found = measurable(refit=None, validator="checks:ours")
    carol = open_round(found.storage).state.reveals[CAROL.public].digest
    found.measure(validator=lambda file, _: "too old" if carol in file.name else None)
    publish(found.storage, LOG)
    opened = open_round(found.storage)
    again = list(repeated(opened, work_folder(opened.state.id), found.base))
    (open_,) = (check for check in again if not check.ok)
    assert (open_.name, open_.ok) == ("validator", None)
    assert open_.detail == "1 refused by the validator's word alone"


def sized(state: State, size: int) -> State:
    """Returns a state whose terms say another size of the held-out examples."""
    assert state.manifest.evaluation
    terms = state.manifest.evaluation.model_copy(update={"bytes": size})
    return replace(state, manifest=state.manifest.model_copy(update={"evaluation": terms}))


def test_strange_keys_and_files_measure_nothing(measurable: Callable[..., Measurable]) -> None:
    found = measurable()
    opened = open_round(found.storage)
    with raises("rounds.no_gate"):
        measure(opened, ALICE, found.sources)
    with raises("rounds.no_examples", "expected the file of its evaluation"):
        found.measure(files={})
    with raises("rounds.other_examples", "expected the evaluation file with SHA-256"):
        found.measure(files={"evaluation": found.sources.files["refit"]})
    with raises("rounds.other_examples", "expected 7 bytes by the round's terms, got"):
        check_file(found.sources.files["evaluation"], "evaluation", sized(opened.state, 7))
    with raises("rounds.measurements_missing", "expected measurements of 3 contributions"):
        publish(found.storage, LOG)
    assert GATE.public not in open_round(found.storage).state.commits


def test_examples_that_the_storage_lacks_are_a_failed_check(
    measurable: Callable[..., Measurable],
) -> None:
    found = measurable()
    shown = found.measure().state.measured.shown["evaluation"]
    publish(found.storage, LOG)
    opened = open_round(found.storage)
    folder = work_folder(opened.state.id)
    (folder / f"evaluation{shown.suffix}").unlink()
    (found.storage.folder / chunk_name(shown.chunks)).unlink()
    (check,) = repeated(opened, folder, found.base)
    assert (check.name, check.ok) == ("files of examples", False)
    assert f"expected chunk {shown.chunks[:12]}, got nothing" in check.detail
