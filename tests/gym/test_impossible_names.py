"""Paths and names that no file can have, given to every public Python function that takes one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym import (
    DeltaSoup,
    DeltaSoupConfig,
    ExperienceLibrary,
    GRPOConfig,
    GRPOTrainer,
    TrainConfig,
    Trainer,
    TrainingConfig,
    TrainingFreeGRPO,
    apply_delta,
    check_delta,
    create_delta,
    generate,
    load_delta,
    open_chat,
    resolve,
    run_training,
)
from zoo.gym.errors import GymError
from zoo.gym.jobs import open_run

IMPOSSIBLE = {
    "long": "x" * 300,
    "deep": "x/" * 3000,
    "of the hub": "org/" + "x" * 300,
    "zero byte": "a\0b",
    "surrogate": "/tmp/a\ud800b",
}


def train(**given: Any) -> None:
    settings: dict[str, Any] = {
        "model_name_or_path": "zen-pico",
        "dataset": "rows.jsonl",
        "max_steps": 1,
    }
    run_training(TrainConfig(**(settings | given)))


def chat(name: str) -> None:
    with open_chat(name):
        pass


def made(**given: Any) -> None:
    arguments: dict[str, Any] = {"source": "a", "base": "b", "base_id": "b", "out": "o"}
    create_delta(**(arguments | given))


def reward(**_: object) -> list[float]:
    return [1.0]


def rewarded(model: str) -> None:
    trainer = GRPOTrainer(model, config=GRPOConfig(), reward_model=reward)
    trainer.train([{"prompt": "a"}])


CALLS: dict[str, Callable[[str], object]] = {
    "resolve": resolve,
    "resolve a path": lambda name: resolve(Path(name)),
    "model": lambda name: train(model_name_or_path=name),
    "dataset": lambda name: train(dataset=name),
    "dataset_dir": lambda name: train(dataset_dir=name),
    "output_dir": lambda name: train(output_dir=name),
    "adapter": lambda name: train(adapter_name_or_path=name),
    "Trainer": lambda name: Trainer(TrainingConfig(model=name)).train("rows.jsonl"),
    "Trainer.train": lambda name: Trainer(TrainingConfig(model="zen-pico")).train(name),
    "GRPOTrainer": rewarded,
    "TrainingFreeGRPO": lambda name: TrainingFreeGRPO(name, GRPOConfig()).train(
        [{"prompt": "a"}], reward
    ),
    "generate": lambda name: generate(name, ["x"]),
    "generate with an adapter": lambda name: generate("zen-pico", ["x"], adapter=name),
    "open_chat": chat,
    "create_delta": lambda name: made(source=name),
    "create_delta on a base": lambda name: made(base=name),
    "create_delta to a file": lambda name: made(out=name),
    "check_delta": check_delta,
    "load_delta": load_delta,
    "apply_delta": lambda name: apply_delta(name, base="b", out="o"),
    "apply_delta on a base": lambda name: apply_delta("a", base=name, out="o"),
    "apply_delta to a folder": lambda name: apply_delta("a", base="b", out=name),
    "ExperienceLibrary": ExperienceLibrary.load,
    "DeltaSoup": lambda name: DeltaSoup(DeltaSoupConfig()).contribute("ann", name),
    "open_run": open_run,
}


LOADING = {"output_dir", "generate with an adapter"}
"""Those that import the engine before they look at the name."""


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    Path("rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n' * 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name, marks=[pytest.mark.slow] if name in LOADING else [])
        for name, call in CALLS.items()
    ],
)
def test_a_name_that_no_file_can_have_is_an_error_of_ours(
    call: Callable[[str], object], name: str
) -> None:
    with pytest.raises(GymError):
        call(name)
