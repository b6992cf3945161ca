"""What methods with rewards teach zen-pico with no setting but the stage.

Each run learns 2,000 additions by reward alone and is asked all withheld ones, which neither it nor
zen-pico has seen. The control deals the same rewards to the wrong answers; where a guard stops it,
its best step is taken, as `zoo-gym runs finish` does. The defaults are tuned on these additions;
the tasks of `bench.reward_tasks`, which zen-pico seldom answers right, are only measured.

usage: python -m bench rewards
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench import reward_tasks
from bench.measure import Case, line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.config import TrainConfig
    from zoo.gym.rewards import Reward, Sample, Score, Task

MODELS = Path(__file__).parents[1] / "models"
SEEDS = (1, 2, 3)
"""Those of GRPO. The control and other methods, which are far from their bars, take the first."""

LEARNED_SUMS, DRAWN_WITH = 2000, 7
RESAMPLES = 10_000
SHUFFLED = "shuffled"
"""GRPO with the rewards of other answers."""

FORMER = "former"
"""GRPO with the defaults before those that seldom-earned rewards need."""

FORMER_SETTINGS = {
    "group_size": 8,
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-3,
    "max_steps": 100,
    "early_stopping_steps": 0,
}


@dataclass(frozen=True)
class Learned:
    """What the runs of a method have learned.

    Attributes:
        right: whether each withheld sum is answered right, [seeds, sums].
        samples: the answers that each run sampled.
        cpu_s: of each run, with its evaluations.
    """

    right: "NDArray[np.bool_]"
    samples: tuple[int, ...]
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


def measure(work: Path, way: str, seeds: Sequence[int] = SEEDS) -> Learned:
    """Trains with each seed and asks all withheld sums.

    Args:
        work: a folder for data and runs.
        way: a stage, or `shuffled`.
        seeds: the seeds.
    """
    import numpy as np

    sums = work / "sums.jsonl"
    if not sums.exists():
        write_sums(sums)
    runs = _in_children(work, [(sums, seed, way) for seed in seeds])
    return Learned(
        right=np.stack([right_answers(Path(run["model"])) for run in runs]),
        samples=tuple(run["samples"] for run in runs),
        cpu_s=tuple(run["cpu_s"] for run in runs),
    )


def _in_children(work: Path, runs: Sequence[tuple[Path, int, str]]) -> list[dict[str, Any]]:
    """Returns what `train` returns of each run; two at a time, each on one core and in its home."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda run: _in_a_child(work, *run), runs))


def _in_a_child(work: Path, data: Path, seed: int, way: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.rewards", str(data), str(seed), way]
    home = work / f"{data.stem}-{way}-{seed}"
    env = {**os.environ, "ZOO_GYM_HOME": str(home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"expected exit code 0, got {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def train(sums: Path, seed: int, way: str) -> dict[str, Any]:
    """Trains with the defaults; returns the result, the number of answers and the CPU seconds."""
    from zoo.gym.config import TrainConfig
    from zoo.gym.jobs import open_run

    start = time.process_time()
    stage = "grpo" if way in {SHUFFLED, FORMER} else way
    if way == SHUFFLED:
        _shuffle_rewards()
    settings: dict[str, Any] = {"dataset": str(sums), "stage": stage, "seed": seed}
    settings |= FORMER_SETTINGS if way == FORMER else {}
    model, collapsed = _model_of(TrainConfig(model_name_or_path="zen-pico", **settings))
    cpu_s = time.process_time() - start
    groups = dict[tuple[int, str], list[dict[str, float]]]()
    with (open_run("last").folder / "samples.jsonl").open() as samples:
        for each in map(json.loads, samples):
            groups.setdefault((each["step"], each["source"]), []).append(each)
    learned = sum(any(each["advantage"] for each in group) for group in groups.values())
    solved = sum(all(each["reward"] == 1 for each in group) for group in groups.values())
    return {
        "model": str(model),
        "samples": sum(map(len, groups.values())),
        "cpu_s": cpu_s,
        "drawn": len(groups) / max(1, learned),
        "searched": (len(groups) - solved) / max(1, learned),
        "collapsed": collapsed,
    }


def _model_of(config: "TrainConfig") -> tuple[Path, bool]:
    """Returns the result of a run, also of one that a guard stops, and whether one did."""
    from zoo.gym import run_training
    from zoo.gym.errors import GuardError
    from zoo.gym.jobs import open_run

    try:
        return run_training(config).model, False
    except GuardError as error:
        print(error, file=sys.stderr)
    program = [sys.executable, "-m", "zoo.gym", "runs", "finish", "last"]
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    return open_run("last").result, True


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


def task_cases(work: Path) -> Iterator[Case]:
    """Yields what GRPO teaches of each task that zen-pico seldom answers right, over all seeds."""
    gains, collapsed, all_runs = list[float](), 0, list[dict[str, Any]]()
    for name in reward_tasks.TASKS:
        file, base = work / f"{name}.jsonl", reward_tasks.share_right(name)
        lines = (json.dumps(vars(one)) + "\n" for one in reward_tasks.problems(name)[0])
        file.write_text("".join(lines))
        ways = [*((seed, "grpo") for seed in SEEDS), (SEEDS[0], FORMER)]
        *runs, former = _in_children(work, [(file, seed, way) for seed, way in ways])
        right = [reward_tasks.share_right(name, Path(run["model"])) for run in runs]
        gains.append(100 * (sum(right) / len(right) - base))
        collapsed += sum(
            run["collapsed"] or share <= base for run, share in zip(runs, right, strict=True)
        )
        all_runs += runs
        seldom, mean = f"{name} ({base:.1%} at first)", 100 * sum(right) / len(right)
        yield Case(f"{seldom}: gain", mean, "% right", "1 point", gains[-1], ">= 12")
        lowest = 100 * min(right)
        yield Case(f"{name}: lowest", lowest, "% right", "1 point", lowest - 100 * base, "")
        slowest, against = max(run["cpu_s"] for run in runs), former["cpu_s"]
        yield Case(f"{name}: a run", slowest, "CPU-s", "before", slowest / against, "<= 15")
    mean = sum(gains) / len(gains)
    yield Case("seldom earned: mean gain", mean, "points", "1 point", mean, ">= 25")
    yield Case("seldom earned: collapsed", collapsed, "runs", "1 run", collapsed, "<= 0")
    drawn = max(run["drawn"] for run in all_runs)
    yield Case("seldom earned: prompts drawn", drawn, "per learned one", "1", drawn, "")
    searched = max(run["searched"] for run in all_runs)
    name = "seldom earned: prompts drawn that are not solved"
    yield Case(name, searched, "per learned one", "1", searched, "<= 3")


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


def gain_case(name: str, base: "NDArray[np.bool_]", found: Learned, bar: str) -> Case:
    """Returns the gain of a method in points, the mean over the seeds."""
    right = 100 * float(found.right.mean())
    return Case(name, right, "% right", "1 point", right - 100 * float(base.mean()), bar)


def run_case(name: str, found: Learned, bar: str) -> Case:
    """Returns the CPU seconds of the slowest run, with its evaluations."""
    slowest = max(found.cpu_s)
    return Case(name, slowest, "CPU-s", "1 CPU-s", slowest, bar)


def run() -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as work:
        place, base = Path(work), right_answers(None)
        share = 100 * float(base.mean())
        yield Case("withheld sums: base", share, "% right", "1 point", share, "")
        grpo = measure(place, "grpo")
        yield gain_case("grpo: gain", base, grpo, ">= 28")
        low = lower_end(base, grpo.right)
        yield Case("grpo: 95 % above", share + low, "% right", "1 point", low, ">= 12")
        yield run_case("grpo: a run", grpo, "")
        yield gain_case("grpo, shuffled rewards", base, measure(place, SHUFFLED, SEEDS[:1]), "<= 2")
        for stage in ("rloo", "ppo"):
            found = measure(place, stage, SEEDS[:1])
            yield gain_case(f"{stage}: gain", base, found, ">= 20")
            samples, against = max(found.samples), max(grpo.samples)
            ratio = samples / against
            yield Case(f"{stage}: answers", samples, "samples", "grpo", ratio, "<= 2")
            yield run_case(f"{stage}: a run", found, "")
        yield from task_cases(place)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        file, seed, way = sys.argv[1:]
        print(json.dumps(train(Path(file), int(seed), way)))
    else:
        for case in run():
            print(line(case))
