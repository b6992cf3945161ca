"""Each setting of the methods that learn from rewards takes effect, or is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import method_with
from tests.gym.train.methods.rollout_runs import digest, samples, start
from tests.night import one_in
from zoo.gym.config import TrainConfig, load_values

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0.5},
        {"group_size": 3},
        {"max_completion_length": 1},
        {"scale_rewards": "none"},
        {"loss_type": "grpo"},
        {"beta": 1.0, "num_iterations": 2},
        {"entropy_coef": 1.0},
        {"top_entropy_quantile": 0.3},
        {"num_iterations": 2},
    ],
)
@pytest.mark.slow
def test_each_setting_changes_the_result(sums: Path, given: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"max_steps": 2, "val_size": 0, "eval_steps": None}
    plain |= {key: 2 for key in ("num_iterations",) if len(given) > 1}
    assert digest(start(sums, **{**plain, **given})) != digest(start(sums, **plain))


PLAIN: dict[str, Any] = {"max_steps": 4, "num_iterations": 2, "val_size": 0, "eval_steps": None}
SETTINGS_OF: dict[str, list[dict[str, Any]]] = {
    "gspo": [{"epsilon": 0.5, "epsilon_high": 0.5}, {"importance_sampling_level": "token"}],
    "rloo": [
        {"beta": 2.0},
        {"epsilon": 0.001},
        {"normalize_advantages": True, "beta": 1.0},
        {"reward_clip_range": "0.25,0.5"},
    ],
    "ppo": [
        {"beta": 2.0},
        {"beta": 2.0, "kl_estimator": "k3"},
        {"epsilon": 1e-3},
        {"cliprange_value": 1e-3},
        {"vf_coef": 3.0},
        {"gamma": 0.5},
        {"lam": 0.1},
        {"whiten_rewards": True},
        {"group_size": 2},
        {"num_mini_batches": 2},
    ],
}
KEYED = [(stage, given) for stage, listed in SETTINGS_OF.items() for given in listed]


@pytest.fixture(scope="module")
def plain(sums: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digest of a run of each stage with its defaults."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("plain")))
        return {stage: digest(start(sums, **{**PLAIN, "stage": stage})) for stage in SETTINGS_OF}


@pytest.mark.parametrize(("stage", "given"), one_in(4, KEYED), ids=str)
@pytest.mark.slow
def test_each_setting_of_a_method_changes_the_result(
    sums: Path, plain: dict[str, str], stage: str, given: dict[str, Any]
) -> None:
    assert digest(start(sums, **{**PLAIN, "stage": stage, **given})) != plain[stage]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"use_bias_correction_kl": False}, "has no effect with beta 0"),
        ({"loss_type": "sapo", "num_iterations": 2, "delta": 2}, "no effect with loss_type sapo"),
        ({"num_iterations": 2, "delta": 1.1}, "delta: expected more than 1 . epsilon_high, 1.2"),
        ({"reward": "nothing"}, "reward: 'nothing': no such reward"),
        ({"max_completion_length": 4000}, "expected less than cutoff_len 2048, got 4000"),
        ({"stage": "rloo", "reward_clip_range": "1"}, "reward_clip_range: expected two rising"),
        ({"stage": "rloo", "reward_clip_range": [1, -1]}, "such as '-1,1', got '1,-1'"),
        ({"stage": "ppo", "loss_type": "dapo"}, "loss_type"),
        (
            {"stage": "ppo", "missing_eos_penalty": 1, "mask_truncated_completions": True},
            "missing_eos_penalty: has no effect with mask_truncated_completions",
        ),
        ({"group_size": 1}, "group_size"),
    ],
)
def test_settings_without_effect_are_refused(given: dict[str, Any], sentence: str) -> None:
    with raises("config.invalid", sentence):
        TrainConfig(**{"model_name_or_path": "m", "dataset": "d", "stage": "grpo", **given})


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"stage": "grpo", "epsilon_high": 0.28}, "epsilon_high"),
        ({"stage": "grpo", "delta": 2}, "delta"),
        ({"stage": "gspo", "epsilon": 0.3}, "epsilon"),
        ({"stage": "rloo", "epsilon": 0.3}, "epsilon"),
        ({"stage": "ppo", "num_iterations": 1, "cliprange_value": 0.3}, "cliprange_value"),
    ],
)
def test_the_clip_of_single_steps_is_accepted_and_reported(given: dict[str, Any], key: str) -> None:
    loaded = load_values({"model_name_or_path": "m", "dataset": "d", **given})
    [found] = [one for one in loaded.ignored if one.key != "stage"]
    assert (found.key, found.origin) == (key, "Python")
    assert found.reason.startswith("with num_iterations 1 nothing has changed")
    several = {"num_mini_batches": 2} if given["stage"] == "ppo" else {"num_iterations": 2}
    assert not loaded.config.model_copy(update=several).idle_settings()


@pytest.mark.parametrize(
    ("given", "key", "reason"),
    [
        ({"loss_type": "cispo"}, "loss_type", "cispo equals dapo: with num_iterations 1"),
        ({"loss_type": "vespo"}, "loss_type", "vespo equals dapo: with num_iterations 1"),
        ({"loss_type": "sapo"}, "loss_type", "sapo equals grpo: with num_iterations 1"),
        ({"loss_type": "bnpo"}, "loss_type", "bnpo equals dapo: tokens are averaged over the step"),
        (
            {"importance_sampling_level": "sequence"},
            "importance_sampling_level",
            "token and sequence are equal: with num_iterations 1",
        ),
        ({"stage": "gspo"}, "stage", "gspo equals grpo with loss_type grpo: with num_iterations 1"),
        (
            {"stage": "gspo", "importance_sampling_level": "token"},
            "importance_sampling_level",
            "token and sequence are equal: with num_iterations 1",
        ),
    ],
    ids=str,
)
def test_a_variant_that_equals_another_in_single_steps_is_reported(
    given: dict[str, Any], key: str, reason: str
) -> None:
    loaded = load_values({"model_name_or_path": "m", "dataset": "d", "stage": "grpo", **given})
    [found] = loaded.ignored
    assert found.key == key
    assert found.reason.startswith(reason)
    several = loaded.config.model_copy(update={"num_iterations": 2})
    assert bool(several.idle_settings()) == (given.get("loss_type") == "bnpo")


@pytest.mark.parametrize(
    "given",
    [
        {"loss_type": "grpo"},
        {"loss_type": "dr_grpo"},
        {"loss_type": "luspo"},
        {"importance_sampling_level": "sequence", "beta": 0.1},
        {"importance_sampling_level": "sequence", "top_entropy_quantile": 0.5},
        {"stage": "gspo", "beta": 0.1},
    ],
    ids=str,
)
def test_a_variant_that_counts_in_single_steps_is_not_reported(given: dict[str, Any]) -> None:
    given = {"model_name_or_path": "m", "dataset": "d", "stage": "grpo", **given}
    assert not load_values(given).ignored


@pytest.mark.slow
def test_an_answer_that_did_not_end_costs_the_penalty(sums: Path) -> None:
    given: dict[str, Any] = {**PLAIN, "stage": "ppo", "max_completion_length": 3}
    plain, run = start(sums, **given), start(sums, **given, missing_eos_penalty=0.5)
    pairs = [
        (one["advantage"], one["reward"] - 0.5 * one["truncated"])
        for one in samples(run)
        if one["step"] == 1
    ]
    assert all(counted == expected for counted, expected in pairs)
    assert {one["truncated"] for one in samples(run)} == {True, False}
    assert digest(run) != digest(plain)


@pytest.mark.slow
def test_more_parts_than_prompts_are_refused(sums: Path) -> None:
    with raises("train.too_many_batches", "num_mini_batches: expected at most the 6 prompts"):
        start(sums, stage="ppo", num_mini_batches=7)


@pytest.mark.slow
def test_a_range_that_makes_all_rewards_equal_stops_the_run(sums: Path) -> None:
    with raises("train.equal_rewards", r"groups in a row have equal rewards: .* got 2 for"):
        start(sums, stage="rloo", reward_clip_range="2,3", max_steps=20)


def test_rewards_are_clipped_on_both_sides() -> None:
    method = method_with("rloo", reward_clip_range="-0.5,1")
    found = method.adjusted((), np.array([[-2.0, 0.25, 3.0, np.nan]]))
    np.testing.assert_array_equal(found, [[-0.5, 0.25, 1.0, np.nan]])
