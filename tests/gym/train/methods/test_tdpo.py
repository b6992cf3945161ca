"""TDPO from a file of pairs to a result; each setting works or is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def trained(folder: Path, **more: Any) -> RunResult:
    return run_training(settings(write_pairs(folder), "tdpo", learning_rate=1e-3, **more))


@pytest.mark.parametrize("tuned", ["lora", "full"])
@pytest.mark.slow
def test_better_answers_gain_and_the_divergence_of_tokens_is_measured(
    tuned: str, tmp_path: Path
) -> None:
    run = trained(tmp_path, finetuning_type=tuned)
    first, *_, last = events(run, "eval")
    # policy and reference are one at first: every margin and divergence is 0, the loss log 2
    assert first["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert first["metrics"]["chosen_kl"] == pytest.approx(0, abs=1e-4)
    assert last["metrics"]["accuracy"] == 1
    assert last["metrics"]["margin"] > 0.1
    assert min(last["metrics"][f"{side}_kl"] for side in ("chosen", "rejected")) > 0.01


@pytest.mark.slow
def test_a_smaller_weight_lets_worse_answers_diverge_further(tmp_path: Path) -> None:
    runs = [trained(tmp_path, tdpo_alpha=alpha) for alpha in (0.01, 20)]
    loose, tight = (events(run, "eval")[-1]["metrics"]["rejected_kl"] for run in runs)
    assert loose > tight


EFFECTIVE: dict[str, dict[str, Any]] = {
    "pref_beta": {"pref_beta": 0.5},
    "tdpo_loss": {"tdpo_loss": "tdpo1"},
    "tdpo_alpha": {"tdpo_alpha": 0.9},
}


@pytest.mark.parametrize("key", own_settings("tdpo"))
def test_each_setting_changes_the_loss(key: str) -> None:
    assert loss_with("tdpo") != pytest.approx(loss_with("tdpo", **EFFECTIVE[key]), abs=1e-9)


REFUSED = [
    (
        {"tdpo_loss": "tdpo1", "tdpo_alpha": 0.9},
        "tdpo_alpha: has no effect with tdpo_loss tdpo1: expected tdpo2",
    ),
    ({"tdpo_loss": "tdpo"}, "tdpo_loss: expected 'tdpo1' or 'tdpo2'"),
    ({"tdpo_alpha": 0}, "tdpo_alpha: expected more than 0, got 0"),
    ({"label_smoothing": 0.1}, "label_smoothing: has no effect with stage tdpo"),
]


@pytest.mark.parametrize(("more", "message"), REFUSED)
def test_a_setting_without_effect_is_refused(more: dict[str, Any], message: str) -> None:
    with raises("config.invalid", message):
        load_config([], [], {**GIVEN, "stage": "tdpo", **more})
