"""Rows without padding, against padded batches in random order and sorted by length.

Fresh processes in turns, ROUNDS of each: zen-pico, LoRA, one thread, 20 steps of 32 rows of real
instructions (of 35 to 290 characters, which are its tokens). Padded in random order is one batch of
32 rows; sorted by length are four batches of 8. The rows of a step are the same in all.

usage: python -m bench packing                    three minutes of one core; needs ../shared
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import MB, Case, Skipped
from bench.step import own_process

ROWS = Path(__file__).parents[2] / "shared" / "data" / "sft" / "instruction-data.json"
ROUNDS, STEPS = 3, 20
WAYS = {"random": (32, False), "sorted": (8, False), "packed": (32, True), "packed by 8": (8, True)}
"""Rows of a batch, and whether they are packed."""


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if not ROWS.is_file():
        yield Skipped("packing", f"{ROWS} is not here")
        return
    with tempfile.TemporaryDirectory() as place:
        rounds = [
            {way: own_process("bench.packing", way, f"{place}/{turn}-{way}") for way in WAYS}
            for turn in range(ROUNDS)
        ]

    def compared(way: str, against: str, figure: str) -> float:
        return median(float(one[way][figure]) / float(one[against][figure]) for one in rounds)

    def typical(way: str, figure: str) -> float:
        return median(float(one[way][figure]) for one in rounds)

    rate = "tokens_per_cpu_s"
    for way, against, bar in (
        ("packed", "random", ">= 1.5"),
        ("sorted", "random", ""),
        ("packed by 8", "sorted", ">= 1"),
    ):
        ratio = compared(way, against, rate)
        yield Case(f"{way}: training", typical(way, rate), "tokens/CPU-s", against, ratio, bar)
    apart = abs(typical("packed", "loss") - typical("random", "loss"))
    name = "packed: held-out loss at the end"
    yield Case(name, typical("packed", "loss"), "nats", "random, difference", apart, "<= 1e-3")
    memory = compared("packed by 8", "sorted", "peak_mb")
    bar = "<= 1.01"
    yield Case("packed by 8: peak", typical("packed by 8", "peak_mb"), "MB", "sorted", memory, bar)


def measured(way: str) -> dict[str, Any]:
    """Trains; returns the tokens per CPU second, the last held-out loss and the peak."""
    import torch

    from zoo.gym import TrainConfig, run_training

    torch.set_num_threads(1)
    size, packing = WAYS[way]
    result = run_training(
        TrainConfig(
            model_name_or_path="zen-pico",
            dataset=ROWS,
            max_steps=STEPS,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=32 // size,
            packing=packing,
            eval_steps=STEPS,
        )
    )
    found = result.metrics
    return {
        "tokens_per_cpu_s": found["tokens"] / found["training_cpu_s"],
        "loss": found["best_loss"],
        "peak_mb": found["peak_host_bytes"] / MB,
    }


if __name__ == "__main__":
    import os

    os.environ |= {"ZOO_GYM_HOME": sys.argv[2], "OMP_NUM_THREADS": "1"}
    print(json.dumps(measured(sys.argv[1])))
