"""Attacks on small rounds of digits: what they send, and which rules resist them."""

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
import pytest

from bench import attack
from bench.attacks.table import ADAPTIVE, ATTACKS, MORE_ATTACKS
from bench.attacks.trial import Row, Trial, try_attacks
from bench.attacks.view import View
from bench.digits.setting import make_setting
from bench.measure import Case, Skipped
from zoo.gym.errors import InputError
from zoo.gym.rounds.rules.method import AggregationMethod, Rule

needs_digits = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")


def kept(method: str, name: str, **how: object) -> float:
    f = 0 if method == "mean" else 3
    rule = Rule(AggregationMethod(method), f)
    trial = Trial(rule, contributors=11, attackers=3, seeds=1, **how)  # type: ignore[arg-type]
    return try_attacks(trial, [name])[0].recovered


@pytest.mark.slow
@needs_digits
def test_ten_sign_flips_ruin_the_mean_and_not_the_default() -> None:
    assert kept("mean", "sign flip x10") < 0
    assert kept("byzantine_robust", "sign flip x10") > 80


@pytest.mark.slow
@needs_digits
def test_a_delta_of_nearly_nothing_wins_krum_on_signs() -> None:
    assert kept("krum", "tiny", form="signs", refit=True) < 10
    assert kept("byzantine_robust", "tiny", form="signs", refit=True) > 60


@pytest.mark.slow
@needs_digits
def test_the_adaptive_attacker_does_more_harm_than_any_other_and_less_behind_a_gate() -> None:
    free, gated = kept("krum", "adaptive"), kept("krum", "adaptive gated")
    assert free < min(kept("krum", name) for name in ("IPM 2", "min-max", "ALIE 1.5"))
    assert free < gated


@pytest.mark.slow
@needs_digits
def test_every_attack_but_none_changes_what_is_sent() -> None:
    setting = make_setting(0, 7, None)
    view = View(setting, 2, 0)
    for name, make in (ATTACKS | MORE_ATTACKS).items():
        sent = make(view)
        assert sent.shape == view.own.shape
        assert np.array_equal(sent, view.own) == (name == "none"), name


@pytest.mark.slow
@needs_digits
def test_keys_of_a_sybil_send_parts_of_one_flipped_delta() -> None:
    view = View(make_setting(0, 7, None), 2, 0)
    parts = (ATTACKS | MORE_ATTACKS)["Sybil split"](view)
    np.testing.assert_allclose(parts.sum(axis=0), -10 * view.mean, atol=1e-6)


@pytest.mark.slow
@needs_digits
def test_attacks_without_attackers_leave_what_nobody_attacking_leaves() -> None:
    trial = Trial(Rule(AggregationMethod.MEAN, 0), contributors=5, attackers=0, seeds=1)
    rows = try_attacks(trial, ["none", *ATTACKS, *MORE_ATTACKS, *ADAPTIVE])
    assert {(row.recovered, row.backdoor) for row in rows} == {(100.0, rows[0].backdoor)}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(AggregationMethod.MAJORITY), "majority: expected contributions in the form signs"),
        (Rule(AggregationMethod.BULYAN, 2), r"expected at least 4 f \+ 3 = 11 contributors"),
    ],
)
@needs_digits
def test_a_rule_that_cannot_take_the_contributions_is_refused(rule: Rule, message: str) -> None:
    with pytest.raises(InputError, match=message):
        try_attacks(Trial(rule, contributors=5, attackers=1, seeds=1), ["none"])


@needs_digits
def test_every_figure_of_the_docs_is_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(trial: Trial, attacks: Sequence[str]) -> list[Row]:
        return [Row(name, float(number), 1.0) for number, name in enumerate(attacks)]

    monkeypatch.setattr(attack, "try_attacks", small)
    cases = {case.name: case for case in attack.run() if isinstance(case, Case)}
    for split in ("iid", "Dirichlet"):
        for form in ("float", "signs"):
            for name in ("mean", "krum", "multi_krum", "default"):
                assert any(f"{name}, {split}, {form}: none" in case for case in cases)
            for name in ("trigger: none", "trigger: backdoor", *ADAPTIVE, *MORE_ATTACKS):
                assert f"{name}, {split}, {form}" in cases


def test_without_the_digits_the_attacks_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "find_spec", lambda _: None)
    assert list(attack.run()) == [Skipped("attacks", "scikit-learn is not installed")]
