"""Thirty steps of zen-pico on words to spell backward, with each optimizer and its own rate."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.night import one_in
from zoo.backends.optimizer_spec import IN_LIBRARY, OPTIMIZERS
from zoo.gym.config import TrainConfig
from zoo.gym.config.keys.optimizer import ONLY_IN_PLACE
from zoo.gym.demo.words import backward, make_words, prompt
from zoo.gym.published.api import run_training

pytestmark = pytest.mark.slow

UNSEEN = 100


def rows() -> list[dict[str, Any]]:
    words = make_words(600, UNSEEN)
    return [{"prompt": prompt(w), "completion": f" {backward(w)}"} for w in words.train]


RUNS_HERE = [name for name in OPTIMIZERS if name not in IN_LIBRARY]
CASES: list[Any] = [pytest.param(name, "full", marks=pytest.mark.nightly) for name in RUNS_HERE]
CASES += one_in(3, [(name, "lora") for name in RUNS_HERE if name not in ONLY_IN_PLACE])


@pytest.mark.parametrize(("name", "method"), CASES)
def test_thirty_steps_lower_the_held_out_loss(
    name: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    config = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=rows(),
        val_size=UNSEEN,
        max_steps=30,
        eval_steps=30,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=1,
        finetuning_type=method,
        optim=name,
    )
    events = (run_training(config).folder / "events.jsonl").read_text().splitlines()
    losses = [event["loss"] for event in map(json.loads, events) if event["kind"] == "eval"]
    # an answer of which nothing is known but that it is letters
    assert losses[0] > 5
    assert losses[-1] < math.log(27)
