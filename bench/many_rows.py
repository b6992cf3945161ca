"""A million chats: the memory of a run and the time to its first step, beside ten thousand.

Fresh processes train zen-pico for one step on chats of two turns with defaults, LoRA on one thread:
rows are indexed and split, a sample of them is encoded for the plan, and the model is evaluated
before training. The bars are those of a desktop: the peak of 10,000 rows + 64 MB, 120 CPU seconds.

usage: python -m bench many_rows                  two minutes of one core, 0.4 GB of disk
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import MB, Case, status_bytes
from bench.step import own_process

FEW, MANY = 10_000, 1_000_000
MORE_MB = 64
LIMIT_CPU_S = 120


def write_chats(path: Path, count: int) -> None:
    """Writes chats of a question and its answer, no two alike."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            asked = {"role": "user", "content": f"What is {n} + {n % 97}?"}
            said = {"role": "assistant", "content": f"It is {n + n % 97}."}
            file.write(json.dumps({"messages": [asked, said]}) + "\n")


def measured(rows: Path) -> dict[str, float]:
    """Trains for one step; returns the CPU seconds up to its end and the peak in MB."""
    import torch

    from zoo.gym import TrainConfig, run_training
    from zoo.gym.jobs import events

    torch.set_num_threads(1)
    found: dict[str, float] = {}
    emit = events.EventLog.emit

    def noted(log: Any, kind: Any, **fields: Any) -> Any:  # noqa: ANN401 - passed on
        if kind == "step":
            found["cpu_s"] = time.process_time()
        return emit(log, kind, **fields)

    with patch.object(events.EventLog, "emit", noted):
        run_training(TrainConfig(model_name_or_path="zen-pico", dataset=rows, max_steps=1))
    return found | {"peak_mb": status_bytes("VmHWM") / MB}


def run() -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory() as place:
        found: dict[int, dict[str, Any]] = {}
        for count in (FEW, MANY):
            rows = Path(place) / f"{count}.jsonl"
            write_chats(rows, count)
            found[count] = own_process("bench.many_rows", str(rows), str(Path(place) / "home"))
    few, many = found[FEW], found[MANY]
    more = many["peak_mb"] - few["peak_mb"]
    yield Case(
        "a million chats: first step",
        many["cpu_s"],
        "CPU-s",
        "1 CPU-s",
        many["cpu_s"],
        f"<= {LIMIT_CPU_S}",
    )
    yield Case("10,000 chats: first step", few["cpu_s"], "CPU-s", "1 CPU-s", few["cpu_s"], "")
    yield Case(
        "a million chats: peak", many["peak_mb"], "MB more", "10,000 chats", more, f"<= {MORE_MB}"
    )


if __name__ == "__main__":
    import os

    os.environ |= {"ZOO_GYM_HOME": sys.argv[2], "OMP_NUM_THREADS": "1"}
    print(json.dumps(measured(Path(sys.argv[1]))))
