"""Runs of methods that learn from rewards on zen-pico, and what they left."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym import rewards
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.jobs import tail_events
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.rewards import Reward, Sample, Score
from zoo.gym.train.session import run_session

SETTINGS: dict[str, Any] = {
    "model_name_or_path": "zen-pico",
    "stage": "grpo",
    "max_steps": 4,
    "per_device_train_batch_size": 3,
    "gradient_accumulation_steps": 2,
    "group_size": 4,
    "max_completion_length": 8,
    "save_steps": 2,
    "eval_steps": 2,
    "val_size": 4,
    "date": "2026-01-01",
}


def write_sums(folder: Path) -> Path:
    """Writes additions with their answers."""
    rows = [
        {"prompt": f"What is {a}+{b}?", "answer": a + b}
        for a in range(12, 18)
        for b in range(81, 89)
    ]
    path = folder / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


PPO: dict[str, Any] = {"stage": "ppo", "num_iterations": 1}


def start(sums: Path, leaving: Callable[[Run], str | None] = lambda _: None, **given: Any) -> Run:
    config = TrainConfig.model_validate({"dataset": str(sums), **SETTINGS, **given})
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    run_session(config, run, lambda: leaving(run))
    return run


def stopped(sums: Path, step: int, **given: Any) -> Run:
    """Returns a run that was stopped after a step."""
    kept: list[Run] = []

    def leaving(run: Run) -> str | None:
        kept[:] = [run]
        return "stopped" if len(events(run, "step")) == step else None

    with raises("train.stopped"):
        start(sums, leaving, **given)
    return kept[0]


def events(run: Run, kind: str) -> list[dict[str, Any]]:
    return [event for event in tail_events(run.events.path)[0] if event["kind"] == kind]


def samples(run: Run) -> list[dict[str, Any]]:
    return list(map(json.loads, (run.folder / "samples.jsonl").read_text().splitlines()))


def digest(run: Run) -> str:
    return hashlib.sha256((run.result / "adapter_model.safetensors").read_bytes()).hexdigest()


class Scripted(Reward):
    """Scores by a function of the sample's text."""

    name, description = "scripted", "for tests"

    def __init__(self, value: Callable[[Sample], float]) -> None:
        self.value, self.closed = value, False

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        values = [self.value(sample) for sample in samples]
        return [Score(value, "no number" if math.isnan(value) else "") for value in values]

    def close(self) -> None:
        self.closed = True


def script(monkeypatch: pytest.MonkeyPatch, value: Callable[[Sample], float]) -> Scripted:
    reward = Scripted(value)
    monkeypatch.setattr(rewards, "load", lambda *_: reward)
    return reward
