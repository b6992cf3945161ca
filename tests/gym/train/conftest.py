"""A tiny model and rows that it can learn, for the loop."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.conftest import write_tiny
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Policy
from zoo.gym.config import TrainConfig
from zoo.gym.data import Example, Unit, alone
from zoo.gym.train.loop import Job
from zoo.gym.train.methods.sft import Supervised
from zoo.gym.train.plan import Facts, make_plan


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny"), tied=True)


def counting_rows(count: int, start: int = 0) -> tuple[Unit, ...]:
    """Rows that count upwards from every second id: all but the first of 12 ids are learned."""
    return alone(
        Example(
            ids=np.arange(10 + 2 * i, 22 + 2 * i, dtype=np.int64),
            mask=np.array([False] + [True] * 11),
            source=f"rows:{i}",
            truncated=False,
        )
        for i in range(start, start + count)
    )


def odd_rows() -> tuple[Unit, ...]:
    """Held-out rows: the same counting, from starts that are not learned from."""
    starts = (13, 21, 29, 37)
    mask = np.array([False] + [True] * 11)
    return alone(Example(np.arange(s, s + 12), mask, f"odd:{s}", False) for s in starts)


@dataclass
class Recorder:
    """Keeps events and answers `leaving` from a script: step -> word."""

    script: dict[int, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def emit(self, kind: str, /, **fields: object) -> None:
        self.events.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    def leaving(self) -> str | None:
        return self.script.get(len(self.of("step")))


def make_job(
    folder: Path,
    checkpoints: Path,
    recorder: Recorder,
    *,
    rows: tuple[Unit, ...] | None = None,
    policy: Policy | None = None,
    **settings: object,
) -> Job:
    rows = counting_rows(24) if rows is None else rows
    held_out = odd_rows()
    defaults = {"max_steps": 8, "learning_rate": 1e-2, "per_device_train_batch_size": 2}
    config = TrainConfig.model_validate(
        {"model_name_or_path": "tiny", "dataset": "rows.jsonl", **defaults, **settings}
    )
    policy = policy or load_backend("cpu").load(folder, LoadSpec(train=LoraSpec(4, 8.0), seed=1))
    facts = Facts(policy.parameter_count(), len(rows), 12 * len(rows), 12, 4, 48)
    plan = make_plan(config, facts)
    method = Supervised(policy, plan, rows, held_out, folder)
    return Job(method, recorder.emit, recorder.leaving, checkpoints)
