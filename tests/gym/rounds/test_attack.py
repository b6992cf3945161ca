"""`zoo-gym round attack` on small rounds of digits."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from zoo.backends.machine.installing import install_command
from zoo.gym.cli import main
from zoo.gym.rounds.attacks.table import ATTACKS, MORE_ATTACKS
from zoo.gym.rounds.attacks.trial import Trial, try_attacks
from zoo.gym.rounds.attacks.view import View
from zoo.gym.rounds.digits import images
from zoo.gym.rounds.digits.setting import make_setting
from zoo.gym.rounds.rules.method import AggregationMethod, Rule

needs_digits = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")


def kept(method: str, attack: str, **how: object) -> float:
    f = 0 if method == "mean" else 3
    rule = Rule(AggregationMethod(method), f)
    trial = Trial(rule, contributors=11, attackers=3, seeds=1, **how)  # type: ignore[arg-type]
    return try_attacks(trial, [attack])[0].recovered


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
    for name, attack in (ATTACKS | MORE_ATTACKS).items():
        sent = attack(view)
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
def test_the_command_prints_rows_and_the_worst(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["round", "attack", "none", "IPM 2", "--method", "mean", "--contributors", "5"]
    assert main([*words, "--attackers", "2", "--seeds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["attack"] for row in found["rows"]] == ["none", "IPM 2"]
    assert found["worst"]["attack"] == "IPM 2"
    assert found["rows"][0]["recovered"] == pytest.approx(100)


@pytest.mark.slow
@needs_digits
def test_attacks_without_attackers_leave_what_nobody_attacking_leaves() -> None:
    trial = Trial(Rule(AggregationMethod.MEAN, 0), contributors=5, attackers=0, seeds=1)
    rows = try_attacks(trial, ["none", *ATTACKS, *MORE_ATTACKS, "adaptive", "adaptive gated"])
    assert {(row.recovered, row.backdoor) for row in rows} == {(100.0, rows[0].backdoor)}


@pytest.mark.slow
def test_as_many_attack_as_the_rule_is_to_withstand(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["round", "attack", "none", "--method", "median", "--contributors", "10"]
    for f, expected in (((), 3), (("--f", "1"), 1), (("--f", "1", "--attackers", "2"), 2)):
        assert main([*words, *f, "--seeds", "1", "--json"]) == 0
        found = capsys.readouterr().out
        assert json.loads(found.splitlines()[-1])["attackers"] == expected


def test_without_the_digits_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(images, "find_spec", lambda _: None)
    assert main(["round", "attack", "--seeds", "1"]) == 4
    assert install_command("rounds") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no such"], "attack: expected one of none, sign flip"),
        (["--contributors", "1"], "--contributors: expected at least 2, got 1"),
        (["--attackers", "50"], "--attackers: expected 0 to 49, got 50"),
        (["--seeds", "0"], "--seeds: expected at least 1, got 0"),
        (["--dirichlet", "0"], "--dirichlet: expected a number above 0"),
        (["--method", "mean", "--f", "3"], "f: expected 0 for mean, got 3"),
        (["--method", "bulyan", "--f", "12"], "expected at least 4 f + 3 = 51 contributors"),
        (["--method", "majority"], "majority: expected the form signs, got float"),
        (["--f", "24"], "expected at least 2 f + 3 = 51 contributors, got 50"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["round", "attack", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@needs_digits
def test_the_malicious_are_as_many_as_the_rule_withstands_and_both_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["round", "attack", "none", "--contributors", "5", "--seeds", "1"]
    assert main([*words, "--method", "bulyan"]) == 0  # 4 f + 3 contributors
    found = capsys.readouterr()
    assert "rule: bulyan, f = 0\n0 of 5 contributors are malicious" in found.out
    assert "this rule withstands none: --attackers 1" in found.err
    assert main([*words, "--method", "krum", "--mix"]) == 0
    assert "rule: krum, f = 1, mixed first\n1 of 5" in capsys.readouterr().out


def test_mixing_a_rule_that_mixes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["round", "attack", "none", "--mix", "--method", "byzantine_robust"]) == 2
    assert "--mix: has no effect on byzantine_robust" in capsys.readouterr().err
