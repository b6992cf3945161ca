"""ORPO, CPO and SimPO from a file of pairs to a result; each setting works or is refused."""

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
from zoo.gym import run_training
from zoo.gym.config import load_config

STAGES = ("orpo", "cpo", "simpo")


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.slow
def test_better_answers_move_ahead_of_worse_ones(stage: str, tmp_path: Path) -> None:
    run = run_training(settings(write_pairs(tmp_path), stage, learning_rate=1e-3))
    first, *_, last = events(run, "eval")
    assert last["metrics"]["margin"] > first["metrics"]["margin"]
    assert last["metrics"]["accuracy"] > first["metrics"]["accuracy"]
    assert run.metrics["best_accuracy"] == last["metrics"]["accuracy"]
    assert "base_tied" not in run.metrics
    assert not (run.folder / "reference.safetensors").exists()


EFFECTIVE: dict[str, dict[str, Any]] = {
    "pref_beta": {"pref_beta": 0.5},
    "label_smoothing": {"label_smoothing": 0.1},
    "cpo_loss": {"cpo_loss": "ipo"},
    "cpo_alpha": {"cpo_alpha": 0.3},
    "simpo_gamma": {"simpo_gamma": 1.0},
    "alphapo_alpha": {"alphapo_alpha": 0.2},
}


@pytest.mark.parametrize(
    ("stage", "key"), [(stage, key) for stage in STAGES for key in own_settings(stage)]
)
def test_each_setting_changes_the_loss(stage: str, key: str) -> None:
    assert loss_with(stage) != pytest.approx(loss_with(stage, **EFFECTIVE[key]), abs=1e-9)


REFUSED = [
    ({"stage": "cpo", "cpo_loss": "simpo"}, "cpo_loss: expected 'sigmoid', 'hinge' or 'ipo'"),
    (
        {"stage": "cpo", "cpo_loss": "hinge", "label_smoothing": 0.1},
        "label_smoothing: has no effect with cpo_loss hinge: expected sigmoid",
    ),
    ({"stage": "orpo", "simpo_gamma": 1}, "simpo_gamma: has no effect with stage orpo"),
    ({"stage": "simpo", "cpo_loss": "ipo"}, "cpo_loss: has no effect with stage simpo"),
    ({"stage": "orpo", "pref_beta": 0}, "pref_beta: expected more than 0, got 0"),
]


@pytest.mark.parametrize(("more", "message"), REFUSED)
def test_a_setting_without_effect_is_refused(more: dict[str, Any], message: str) -> None:
    with raises("config.invalid", message):
        load_config([], [], {**GIVEN, **more})
