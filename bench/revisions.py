"""The time of a step in another checkout of this repository and in this one.

Fresh processes train zen-pico in turn, first with the other checkout's code, then with this one's,
both in this environment on one thread: supervised LoRA, 60 steps of 4 batches of 4 rows. The figure
is the median of the ratios of a pair, because one machine's speed drifts within minutes.

usage: python -m bench.revisions CHECKOUT [PAIRS]     CHECKOUT: git worktree add CHECKOUT REVISION,
                                                      with the built core copied into it;
                                                      10 pairs by default
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]
SOURCES = ("app", "backends", "models", "core-rs/python")
STEPS = 60
PROGRAM = f"""
import json, sys, torch
from zoo.gym import TrainConfig, run_training
torch.set_num_threads(1)
run = run_training(TrainConfig(
    model_name_or_path="zen-pico", dataset=sys.argv[1], max_steps={STEPS}, save_steps=1000,
    eval_steps=1000, per_device_train_batch_size=4, gradient_accumulation_steps=4, seed=3,
    date="2026-01-01",
))
print(json.dumps(run.metrics["training_cpu_s"]))
"""
"""Uses only what every revision with a Python API has."""


def rows() -> str:
    """Returns 80 chats, a line each."""
    turns = [
        [
            {"role": "user", "content": f"say {i}"},
            {"role": "assistant", "content": f"{i} {i * 7 % 13} " * 20},
        ]
        for i in range(80)
    ]
    return "".join(json.dumps({"messages": messages}) + "\n" for messages in turns)


def step_cpu_s(checkout: Path) -> float:
    """Returns the CPU seconds of a step with the code of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.jsonl"
        data.write_text(rows())
        path = os.pathsep.join(str(checkout / source) for source in SOURCES)
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        env = os.environ | one_thread | {"PYTHONPATH": path, "ZOO_GYM_HOME": folder}
        command = [sys.executable, "-c", PROGRAM, str(data)]
        found = subprocess.run(command, env=env, cwd=checkout, check=True, stdout=subprocess.PIPE)
    return float(json.loads(found.stdout.splitlines()[-1])) / STEPS


def main(other: Path, pairs: int = 10) -> None:
    """Prints each pair and the medians."""
    ratios: list[float] = []
    for number in range(1, pairs + 1):
        before, after = step_cpu_s(other), step_cpu_s(HERE)
        ratios.append(after / before)
        print(f"{number:3}  {before:.4f}  {after:.4f} CPU-s  {ratios[-1]:.4f}", flush=True)
    print(f"median of the ratios: {median(ratios):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:3]))
