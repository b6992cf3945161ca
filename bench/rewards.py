"""What GRPO teaches zen-pico with no setting but the stage: sums of two-digit numbers.

The model learns 2,000 additions by reward alone and is asked all withheld ones, which neither it
nor zen-pico has seen. The control learns from the same rewards, dealt to the wrong answers.

usage: python -m bench.rewards
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench.measure import Case, line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.rewards import Reward, Sample, Score, Task

MODELS = Path(__file__).parents[1] / "models"
SEEDS = (1, 2, 3)
LEARNED_SUMS, DRAWN_WITH = 2000, 7
RESAMPLES = 10_000


@dataclass(frozen=True)
class Learned:
    """Right answers to the withheld sums, and the CPU seconds of each run with its evaluations.

    Attributes:
        base: whether zen-pico answers each sum.
        tuned: the same after training, [seeds, sums].
        control: the same after training on rewards of other answers.
        cpu_s: of each run.
    """

    base: "NDArray[np.bool_]"
    tuned: "NDArray[np.bool_]"
    control: "NDArray[np.bool_]"
    cpu_s: tuple[float, ...]


def write_sums(path: Path) -> None:
    """Writes additions of two-digit numbers that are not withheld, some of them twice."""
    tasks = _tasks()
    rng = random.Random(DRAWN_WITH)
    lines: list[str] = []
    while len(lines) < LEARNED_SUMS:
        left, right = (10 + int(rng.random() * 90) for _ in range(2))
        if not tasks.is_withheld(left, right):
            asked = tasks.addition(left, right)
            lines.append(json.dumps({"prompt": asked.prompt, "answer": asked.answer}) + "\n")
    path.write_text("".join(lines))


def measure(work: Path, seeds: Sequence[int] = SEEDS) -> Learned:
    """Trains with each seed, once more with shuffled rewards, and asks all withheld sums."""
    import numpy as np

    sums = work / "sums.jsonl"
    write_sums(sums)
    runs = [_in_a_child(work, sums, seed, "as-they-are") for seed in seeds]
    shuffled = _in_a_child(work, sums, seeds[0], "shuffled")
    return Learned(
        base=right_answers(None),
        tuned=np.stack([right_answers(Path(run["model"])) for run in runs]),
        control=right_answers(Path(shuffled["model"])),
        cpu_s=tuple(run["cpu_s"] for run in runs),
    )


def _in_a_child(work: Path, sums: Path, seed: int, rewards: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.rewards", str(sums), str(seed), rewards]
    env = {**os.environ, "ZOO_GYM_HOME": str(work / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"expected exit code 0, got {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def train(sums: Path, seed: int, *, shuffled: bool) -> dict[str, Any]:
    """Trains with the defaults of the stage; returns the result and the CPU seconds of all."""
    from zoo.gym import run_training
    from zoo.gym.config import TrainConfig

    if shuffled:
        _shuffle_rewards()
    start = time.process_time()
    config = TrainConfig(model_name_or_path="zen-pico", dataset=str(sums), stage="grpo", seed=seed)
    run = run_training(config)
    return {"model": str(run.model), "cpu_s": time.process_time() - start}


def _shuffle_rewards() -> None:
    """Deals the rewards of a step to its answers at random."""
    from zoo.gym import rewards

    load, rng = rewards.load, random.Random(0)

    def shuffling(spec: object, tasks: "Sequence[Task]") -> "Reward":
        found = load(spec, tasks)
        score = found.score

        def shuffled(samples: "Sequence[Sample]") -> "list[Score]":
            scores = score(samples)
            rng.shuffle(scores)
            return scores

        object.__setattr__(found, "score", shuffled)
        return found

    rewards.load = shuffling


def right_answers(adapter: Path | None) -> "NDArray[np.bool_]":
    """Returns for each withheld sum whether the most likely answer is right."""
    import numpy as np

    from zoo.gym import generate

    tasks = _tasks()
    asked = [*tasks.stopping_slice(), *tasks.test_slice()]
    answers = generate("zen-pico", [one.prompt for one in asked], adapter=adapter)
    pairs = zip(answers, asked, strict=True)
    return np.array([answer.strip() == one.answer for answer, one in pairs])


def _tasks() -> ModuleType:
    """Returns zen-pico's own questions, which are not part of the package."""
    sys.path.insert(0, str(MODELS))
    from pico import tasks

    return tasks


def lower_end(base: "NDArray[np.bool_]", tuned: "NDArray[np.bool_]") -> float:
    """Returns the lower end of the 95 % interval of the gain, in points.

    Paired bootstrap: sums and seeds are drawn with replacement.

    Args:
        base: right answers before training, [sums].
        tuned: and after it, [seeds, sums].
    """
    import numpy as np

    gains = tuned.astype(float) - base
    rng = np.random.default_rng(0)
    seeds, sums = gains.shape
    drawn = [
        gains[rng.integers(0, seeds, seeds)][:, rng.integers(0, sums, sums)].mean()
        for _ in range(RESAMPLES)
    ]
    return 100 * float(np.quantile(drawn, 0.025))


def cases(found: Learned) -> Iterator[Case]:
    """Yields the table."""
    base = 100 * float(found.base.mean())
    gain = 100 * float(found.tuned.mean()) - base
    low = lower_end(found.base, found.tuned)
    control = 100 * float(found.control.mean()) - base
    slowest = max(found.cpu_s)
    yield Case("withheld sums: gain", base + gain, "% right", "1 point", gain, ">= 20")
    yield Case("withheld sums: 95 % above", base + low, "% right", "1 point", low, ">= 12")
    yield Case("shuffled rewards: gain", base + control, "% right", "1 point", control, "<= 2")
    yield Case("a run with its evaluations", slowest, "CPU-s", "1 CPU-s", slowest, "<= 90")
    yield Case("withheld sums: base", base, "% right", "1 point", base, "")


def run() -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as work:
        yield from cases(measure(Path(work)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        file, seed, rewards = sys.argv[1:]
        print(json.dumps(train(Path(file), int(seed), shuffled=rewards == "shuffled")))
    else:
        for case in run():
            print(line(case))
