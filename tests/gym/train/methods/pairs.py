"""Pairs that a tiny model soon ranks, and what each preference method is tried with."""

import json
from pathlib import Path
from typing import Any

from tests.gym.objectives.pair_problems import Pairs
from zoo.gym import RunResult
from zoo.gym.config import TrainConfig, load_config
from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.stages import config_class, load_method
from zoo.gym.train.plan import Plan

GIVEN: dict[str, Any] = {"model": "m", "data": "d.jsonl"}


def write_pairs(folder: Path) -> Path:
    rows = [
        {"prompt": f"say {word} {n}", "chosen": f"{word} {n} yes", "rejected": f"no {word} {n}"}
        for n in range(8)
        for word in ("cat", "sun", "sea")
    ]
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def settings(data: Path, stage: str, **more: Any) -> TrainConfig:
    given = {"model_name_or_path": "zen-pico", "dataset": str(data), "stage": stage}
    fixed = {"max_steps": 8, "eval_steps": 4, "val_size": 6, "date": "2026-01-01"}
    return TrainConfig.model_validate({**given, **fixed, **more})


def events(run: RunResult, kind: str) -> list[dict[str, Any]]:
    lines = (run.folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def own_settings(stage: str) -> list[str]:
    """Returns the settings that a method adds to those of all methods that learn from rows."""
    return sorted(set(config_class(stage).model_fields) - set(RetainingConfig.model_fields))


def method_with(stage: str, **more: Any) -> Any:
    """Returns a method with these settings, without a model."""
    config = load_config([], [], {**GIVEN, "stage": stage, **more}).config
    return load_method(stage)(None, Plan(config, 1, 1, 0, ()), (), (), Path())


def loss_with(stage: str, **more: Any) -> float:
    """Returns the loss of random pairs under a method's objective with these settings."""
    return float(Pairs(0).ours(method_with(stage, **more).objective)[0].detach())
