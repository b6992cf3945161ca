"""Unlearning from rows to a result; each setting works or is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import GIVEN, events, method_with, own_settings, settings
from tests.night import one_in
from zoo.gym import RunResult, run_training
from zoo.gym.config import load_config
from zoo.gym.data import read_dataset
from zoo.gym.objectives.unlearning import UnlearningLoss
from zoo.gym.train.methods.unlearn import Unlearning


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def write_rows(folder: Path, forget: tuple[bool, ...] = (True, False)) -> Path:
    rows = [
        {
            "prompt": f"{'secret' if wanted else 'name'} {n}",
            "completion": f"{'blue' if wanted else 'seven'} {n}",
            "forget": wanted,
        }
        for n in range(12)
        for wanted in forget
    ]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trained(data: Path, **more: Any) -> RunResult:
    given = {"val_size": 8, "learning_rate": 1e-3}
    return run_training(settings(data, "unlearn", **{**given, **more}))


# the answers are unlikely from the start: with its usual beta SimNPO would leave them alone
@pytest.mark.parametrize(("loss", "beta"), [("npo", 0.1), ("simnpo", 0.1)])
@pytest.mark.slow
def test_answers_to_forget_become_unlikely_and_others_do_not(
    loss: str, beta: float, tmp_path: Path
) -> None:
    run = trained(write_rows(tmp_path), unlearn_loss=loss, pref_beta=beta)
    first, *_, last = (event["metrics"] for event in events(run, "eval"))
    assert last["forget_nll"] > first["forget_nll"] + 0.1
    assert last["retain_nll"] < first["retain_nll"]
    losses: Any = run.metrics
    assert losses["best_loss"] < losses["base_loss"]
    assert (run.folder / "reference.safetensors").exists() is (loss == "npo")
    assert not [event for event in events(run, "warn") if "to retain" in event["message"]]


def test_forget_is_the_opposite_of_a_label(tmp_path: Path) -> None:
    found = read_dataset([write_rows(tmp_path)], kinds=Unlearning.reads)
    assert [record.good for record in found.records[:2]] == [False, True]
    assert not found.notes


@pytest.mark.slow
def test_rows_without_any_to_forget_are_refused(tmp_path: Path) -> None:
    with raises("train.nothing_to_forget"):
        trained(write_rows(tmp_path, (False,)))


@pytest.mark.slow
def test_rows_without_any_to_retain_come_with_a_warning(tmp_path: Path) -> None:
    run = trained(write_rows(tmp_path, (True,)), max_steps=1, eval_steps=1)
    assert any("no rows to retain" in event["message"] for event in events(run, "warn"))
    assert "retain_nll" not in events(run, "eval")[0]["metrics"]


@pytest.mark.parametrize(
    ("more", "loss"),
    [
        ({}, UnlearningLoss(loss="npo", beta=0.1, gamma=0.0, retain=1.0)),
        (
            {"unlearn_loss": "simnpo", "simnpo_gamma": 0.5, "retain_alpha": 0.25},
            UnlearningLoss(loss="simnpo", beta=2.5, gamma=0.5, retain=0.25),
        ),
        ({"pref_beta": 0.3}, UnlearningLoss(loss="npo", beta=0.3, gamma=0.0, retain=1.0)),
    ],
)
def test_each_setting_is_where_the_loss_reads_it(
    more: dict[str, Any], loss: UnlearningLoss
) -> None:
    assert method_with("unlearn", **more).objective == loss


DIFFERENT: dict[str, dict[str, Any]] = {
    "unlearn_loss": {"unlearn_loss": "simnpo"},
    "pref_beta": {"pref_beta": 0.5},
    "simnpo_gamma": {"unlearn_loss": "simnpo", "pref_beta": 0.1, "simnpo_gamma": 0.5},
    "retain_alpha": {"retain_alpha": 0.5},
}


@pytest.mark.parametrize("key", one_in(2, own_settings("unlearn")))
@pytest.mark.slow
def test_each_setting_changes_the_loss(key: str, tmp_path: Path) -> None:
    more = DIFFERENT[key]
    plain = {name: value for name, value in more.items() if name != key}
    losses = [
        events(trained(write_rows(tmp_path), max_steps=1, eval_steps=1, **given), "step")[0]["loss"]
        for given in (plain, more)
    ]
    assert losses[0] != pytest.approx(losses[1], abs=1e-6)


def test_a_margin_without_effect_is_refused() -> None:
    message = "simnpo_gamma: has no effect with unlearn_loss npo: expected simnpo"
    with raises("config.invalid", message):
        load_config([], [], {**GIVEN, "stage": "unlearn", "simnpo_gamma": 1})
