"""DPO from a file of pairs to a measured result; each of its settings works or is refused."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import (
    GIVEN,
    events,
    loss_with,
    own_settings,
    settings,
    write_pairs,
)
from zoo.gym import RunResult, run_training
from zoo.gym.config import load_config
from zoo.gym.config.values import is_chosen
from zoo.gym.data import Example, Unit
from zoo.gym.errors import InputError
from zoo.gym.objectives.constants import LOGPROB_WEIGHTS, REF_LOGPROBS
from zoo.gym.objectives.dpo import DIVERGING, LOSSES, SMOOTHED
from zoo.gym.train.methods.dpo import DpoConfig
from zoo.gym.train.methods.preference import with_logprob_weights

DPO: dict[str, Any] = {**GIVEN, "stage": "dpo"}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def whole(pairs: Path) -> RunResult:
    return run_training(settings(pairs, "dpo"))


@pytest.mark.slow
def test_held_out_pairs_are_ranked_as_the_data_ranks_them(whole: RunResult) -> None:
    first, *_, last = events(whole, "eval")
    # policy and reference are one at first: every margin is 0, and -log sigmoid(0) = log 2
    assert first["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert first["metrics"]["margin"] == pytest.approx(0, abs=1e-5)
    assert last["metrics"]["accuracy"] == 1
    assert last["metrics"]["margin"] > 0.1
    assert whole.metrics["best_accuracy"] == 1
    assert whole.metrics["base_tied"] is True


@pytest.mark.slow
def test_of_equally_good_steps_the_last_is_kept(whole: RunResult) -> None:
    assert [event["best"] for event in events(whole, "eval")][1:] == [True, True]
    assert whole.metrics["best_step"] == 8


@pytest.mark.slow
def test_the_first_step_is_as_large_as_a_gradient_of_all_pairs(whole: RunResult) -> None:
    plan, step = events(whole, "plan")[0], events(whole, "step")[0]
    assert (plan["watch"], plan["loss_unit"]) == (["accuracy", "margin"], "")
    assert (plan["rows"], plan["held_out_rows"]) == (18, 6)
    assert step["grad_norm"] > 0


def test_the_learning_rate_is_a_tenth_of_that_of_answers(whole: RunResult) -> None:
    (plan,) = events(whole, "plan")
    chosen = {choice["key"]: choice["value"] for choice in plan["choices"]}
    assert chosen["learning_rate"] == pytest.approx(2e-4)


@pytest.mark.slow
def test_weights_of_tokens_reach_the_training(whole: RunResult, pairs: Path) -> None:
    other = run_training(settings(pairs, "dpo", ld_alpha=0.0, max_steps=2, eval_steps=2))
    assert events(other, "step")[1]["loss"] != events(whole, "step")[1]["loss"]


def unit(*answers: int) -> Unit:
    """Answers of so many tokens, after a prompt of two."""
    rows = []
    for length in answers:
        ids = np.arange(2 + length)
        extras = {REF_LOGPROBS: np.zeros(len(ids), np.float32)}
        rows.append(Example(ids, ids >= 2, "rows:1", truncated=False, extras=extras))
    return Unit(tuple(rows))


def test_tokens_beyond_the_other_answer_have_the_weight_given() -> None:
    (found,) = with_logprob_weights([unit(2, 4)], 0.3)
    weights = [row.extras[LOGPROB_WEIGHTS][2:].tolist() for row in found.rows]
    assert weights == [[1, 1], pytest.approx([1, 1, 0.3, 0.3])]
    assert set(found.rows[0].extras) == {LOGPROB_WEIGHTS, REF_LOGPROBS}


EFFECTIVE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pref_beta": ({}, {"pref_beta": 0.5}),
    "pref_loss": ({}, {"pref_loss": "ipo"}),
    "pref_loss_weights": (
        {"pref_loss": "sigmoid,sft"},
        {"pref_loss": "sigmoid,sft", "pref_loss_weights": "1,0.5"},
    ),
    "label_smoothing": ({}, {"label_smoothing": 0.1}),
    "f_divergence_type": ({}, {"f_divergence_type": "js_divergence"}),
    "f_alpha_divergence_coef": (
        {"f_divergence_type": "alpha_divergence"},
        {"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 0.7},
    ),
    "use_weighting": ({}, {"use_weighting": True}),
    "discopop_tau": ({"pref_loss": "discopop"}, {"pref_loss": "discopop", "discopop_tau": 1}),
}


@pytest.mark.parametrize("key", [key for key in own_settings("dpo") if key != "ld_alpha"])
def test_each_setting_changes_the_loss(key: str) -> None:
    assert not is_chosen(DpoConfig.model_fields[key])
    before, after = EFFECTIVE[key]
    assert loss_with("dpo", **before) != pytest.approx(loss_with("dpo", **after), abs=1e-9)


def _accepted(name: str) -> dict[str, Any]:
    """Returns the settings of a loss, with the least that it needs."""
    given = {"pref_loss": name}
    try:
        load_config([], [], {**DPO, **given})
    except InputError:
        return given | {"label_smoothing": 1e-3}
    return given


def test_no_two_losses_are_equal_with_the_settings_they_accept() -> None:
    found = {name: loss_with("dpo", **_accepted(name)) for name in LOSSES}
    for (one, its), (other, others) in combinations(found.items(), 2):
        assert abs(its - others) > 1e-6, (one, other)


@pytest.mark.parametrize("divergence", ["forward_kl", "js_divergence", "alpha_divergence"])
@pytest.mark.parametrize("name", sorted(DIVERGING))
def test_each_divergence_changes_each_loss_that_accepts_it(name: str, divergence: str) -> None:
    given = _accepted(name)
    changed = loss_with("dpo", **given, f_divergence_type=divergence)
    assert abs(changed - loss_with("dpo", **given)) > 1e-6


@pytest.mark.parametrize("name", sorted(SMOOTHED))
def test_smoothing_changes_each_loss_that_accepts_it(name: str) -> None:
    given = _accepted(name)
    smoothed = loss_with("dpo", **{**given, "label_smoothing": 0.2})
    assert abs(smoothed - loss_with("dpo", **given)) > 1e-6


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"sft"}))
def test_beta_changes_each_loss_that_accepts_it(name: str) -> None:
    given = _accepted(name)
    changed = loss_with("dpo", **given, pref_beta=0.5)
    assert abs(changed - loss_with("dpo", **given)) > 1e-6


REFUSED = [
    ({"pref_loss": "orpho"}, "pref_loss: expected sigmoid, hinge, .*, got 'orpho'"),
    ({"pref_loss": ","}, "pref_loss: expected sigmoid, hinge, .*, got ''"),
    ({"pref_loss_weights": "1,2"}, r"one number above 0 for each loss \(sigmoid\), got '1,2'"),
    ({"pref_loss_weights": "x"}, "pref_loss_weights: expected one number above 0"),
    ({"pref_loss_weights": "nan"}, "pref_loss_weights: expected one number above 0"),
    ({"pref_loss_weights": "0"}, "pref_loss_weights: expected one number above 0"),
    (
        {"pref_loss": "hinge", "label_smoothing": 0.1},
        "label_smoothing: has no effect with pref_loss hinge: expected one of sigmoid, exo_pair",
    ),
    (
        {"pref_loss": "aot", "f_divergence_type": "forward_kl"},
        "f_divergence_type: has no effect with pref_loss aot: expected one of sigmoid, hinge",
    ),
    ({"f_alpha_divergence_coef": 0.7}, "f_alpha_divergence_coef: has no effect with f_divergence"),
    (
        {"discopop_tau": 1},
        "discopop_tau: has no effect with pref_loss sigmoid: .*discopop",
    ),
    ({"pref_loss": "sft", "ld_alpha": 0.5}, "ld_alpha: has no effect with pref_loss sft"),
    ({"pref_loss": "sft", "pref_beta": 0.5}, "pref_beta: has no effect with pref_loss sft"),
    ({"pref_loss": "exo_pair"}, "label_smoothing: expected more than 0 for pref_loss exo_pair"),
    (
        {"pref_loss": "hinge,robust"},
        "label_smoothing: expected more than 0 for pref_loss robust, which is sigmoid without it",
    ),
    (
        {"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 1},
        "f_alpha_divergence_coef: expected another number than 1, which is .* reverse_kl",
    ),
    (
        {"pref_loss": "aot", "use_weighting": True},
        "use_weighting: cannot weigh .* aot",
    ),
    ({"pref_loss": "sft,sigmoid", "use_weighting": True}, "cannot weigh the pairs of .* sft"),
    ({"label_smoothing": 0.5}, "label_smoothing: expected less than 0.5, got 0.5"),
    ({"pref_ftx": 0.1}, "pref_ftx: expected it in pref_loss: sigmoid,sft, with pref_loss_weights"),
    ({"ref_model": "m"}, "ref_model: another reference than the base model is not supported yet"),
]


@pytest.mark.parametrize(("more", "message"), REFUSED)
def test_a_setting_without_effect_is_refused(more: dict[str, Any], message: str) -> None:
    with raises("config.invalid", message):
        load_config([], [], {**DPO, **more})


def test_lists_and_other_spellings_of_published_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(
        "pref_loss: [robust, sft]\nloss_weights: [1, 0.5]\ndpo_label_smoothing: 0.1\n"
        "precompute_ref_log_probs: true\n"
    )
    loaded = load_config([file], [], DPO)
    assert isinstance(loaded.config, DpoConfig)
    assert loaded.config.terms() == (("robust", 1.0), ("sft", 0.5))
    assert loaded.config.label_smoothing == 0.1
    assert [one.key for one in loaded.ignored] == ["precompute_ref_log_probs"]


def test_its_settings_are_refused_by_other_methods() -> None:
    with raises("config.invalid", "pref_beta: has no effect with stage sft: expected stage"):
        load_config([], [], {**GIVEN, "stage": "sft", "pref_beta": 0.2})
