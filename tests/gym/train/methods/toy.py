"""A method of its own file: pairs, two metrics, a reference, and something that it remembers.

Started as a program it is a worker that knows the method, and may kill itself:
python -m tests.gym.train.methods.toy RUN_FOLDER [STEP]
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from zoo.backends.base import ArrayNamespace, LossAndMetrics, Stat
from zoo.gym.config import stages
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number
from zoo.gym.objectives.constants import REF_LOGPROBS, WINDOW_UNITS
from zoo.gym.train.method import Method, Window
from zoo.gym.train.reference import with_reference

STAGE = {"toy": "tests.gym.train.methods.toy:Toy"}
"""The one line of the table."""


class ToyConfig(TrainConfig, frozen=True):
    """Settings of the toy: one of its own."""

    stage: Literal["toy"] = "toy"
    toy_beta: Number = 0.1


class Preference:
    """Better answers become likelier than worse ones, against a reference."""

    needs = frozenset({Stat.LOGPROBS})
    coupled = False

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def __call__(
        self, xp: ArrayNamespace, stats: Mapping[Stat, Any], batch: Mapping[str, Any]
    ) -> LossAndMetrics:
        gain = xp.sum((stats[Stat.LOGPROBS] - batch[REF_LOGPROBS]) * batch["mask"], axis=-1)
        margin = self.beta * (gain[0::2] - gain[1::2])
        won = xp.where(margin > 0, xp.ones_like(margin), xp.zeros_like(margin))
        pairs = batch[WINDOW_UNITS]
        metrics = {"accuracy": xp.sum(won) / pairs, "margin": xp.sum(margin) / pairs}
        return -xp.sum(xp.log_sigmoid(margin)) / pairs, metrics


class Toy(Method):
    """Preferences with a beta that grows with each step: a resume that forgets it is seen."""

    config = ToyConfig
    reads = frozenset({"pair"})
    decides, better = "margin", "higher"
    watch = ("accuracy", "margin")
    steps_seen = 0

    @property
    def objective(self) -> Preference:
        config = self.plan.config
        assert isinstance(config, ToyConfig)
        return Preference(config.toy_beta * (1 + 0.1 * self.steps_seen))

    def prepare(self) -> None:
        self.units = with_reference(self.policy, self.units, self.folder / "reference.safetensors")
        held_out = self.folder / "reference-held-out.safetensors"
        self.held_out = with_reference(self.policy, self.held_out, held_out)

    def window(self, step: int) -> Window:
        if os.environ.get("TOY_DIES_AT") == str(step):
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps_seen += 1
        return super().window(step)

    def save(self, folder: Path) -> None:
        (folder / "toy.json").write_text(json.dumps({"steps_seen": self.steps_seen}))

    def load(self, folder: Path) -> None:
        self.steps_seen = json.loads((folder / "toy.json").read_text())["steps_seen"]


if __name__ == "__main__":
    from zoo.gym.jobs.worker import main

    stages.METHODS.update(STAGE)
    sys.exit(main(sys.argv[1:]))
