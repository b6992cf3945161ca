"""Supervised fine-tuning by method: what a run with `use_dft_loss` learns and reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import GIVEN, events
from zoo.gym import run_training
from zoo.gym.config import TrainConfig, load_config
from zoo.gym.config.stages import load_method
from zoo.gym.train.plan import Plan


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    lines = [{"prompt": f"say {n}", "completion": f"the {n} of it"} for n in range(16)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def trained(rows: Path, **more: Any) -> Any:
    given = {"model_name_or_path": "zen-pico", "dataset": str(rows), "learning_rate": 1e-3}
    fixed = {"max_steps": 6, "eval_steps": 3, "val_size": 4, "date": "2026-01-01"}
    return run_training(TrainConfig.model_validate({**given, **fixed, **more}))


def test_the_notes_of_the_engine_are_reported_also_for_single_rows_with_padding() -> None:
    class Engine:
        def notes(self, **given: bool) -> tuple[str, ...]:
            return () if given["prefix"] or given["sampling"] else ("muon takes matrices",)

    config = load_config([], [], {**GIVEN, "stage": "sft", "packing": False}).config
    engine: Any = Engine()
    method = load_method("sft")(engine, Plan(config, 1, 1, 0, ()), (), (), Path())
    assert method.notes() == ("muon takes matrices",)


@pytest.mark.slow
def test_dft_weighs_steps_and_not_evaluations(rows: Path) -> None:
    plain, dft = trained(rows), trained(rows, use_dft_loss=True)
    first, before = events(dft, "step")[0], events(plain, "step")[0]
    assert first["metrics"]["nll"] == pytest.approx(before["loss"], rel=1e-6)
    assert first["loss"] < 0.7 * first["metrics"]["nll"]  # p < 1
    assert "metrics" not in before
    start, *_, last = events(dft, "eval")
    assert start["loss"] == events(plain, "eval")[0]["loss"]
    assert last["loss"] < start["loss"]
    assert last["loss"] != events(plain, "eval")[-1]["loss"]


REFUSED = [
    ({"stage": "dpo", "use_dft_loss": True}, "use_dft_loss: has no effect with stage dpo"),
    ({"loss_type": "dft"}, "loss_type: expected use_dft_loss true with stage sft"),
    ({"use_dft_loss": "perhaps"}, "use_dft_loss: expected true or false"),
]


@pytest.mark.parametrize(("more", "message"), REFUSED)
def test_a_setting_without_effect_is_refused(more: dict[str, Any], message: str) -> None:
    with raises("config.invalid", message):
        load_config([], [], {**GIVEN, **more})
