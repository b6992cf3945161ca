"""The estimate of memory against the peak of whole runs, on random models of 20 to 90 M parameters.

A deep and narrow model, a wide and shallow one, and one with a large vocabulary are trained for two
steps, each run in a fresh process with the allocator setting of our workers.

usage: python -m bench memory                     a quarter of an hour of one core, 1 GB of disk
       python -m bench.memory FOLDER KEY=VALUE ...
                                                  one run of a model that `write_model` has written,
                                                  and how its peak grew from event to event
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import MB, Case, status_bytes
from bench.step import own_process
from bench.ten_million import words, write_tokenizer
from bench.zen_nano import config, specs, write_weights
from zoo.models.registry import Geometry

STEPS = 2
LOW, HIGH = 0.85, 1.2
"""The bounds of the estimate divided by the peak."""

SHAPES = {
    "deep": Geometry(256, 24, 8, 4, 32, 1024, 8192, tied=True),
    "wide": Geometry(1536, 2, 12, 12, 128, 6144, 4096, tied=True),
    "words": Geometry(384, 4, 6, 2, 64, 1024, 65_536, tied=False),
}
"""Models of 26, 82 and 57 M parameters."""

WAYS: Mapping[str, Mapping[str, str]] = {
    "lora": {},
    "full": {"finetuning_type": "full"},
    "freeze": {"finetuning_type": "freeze"},
    "nf4": {"quantization_bit": "4"},
    "badam": {"finetuning_type": "full", "optim": "badam"},
    "galore": {"finetuning_type": "full", "optim": "galore"},
    "dpo": {"stage": "dpo"},
    "dpo full": {"stage": "dpo", "finetuning_type": "full"},
    "grpo": {"stage": "grpo", "group_size": "4", "num_iterations": "1"},
    "grpo full": {"stage": "grpo", "group_size": "4", "finetuning_type": "full", "beta": "0.04"},
}

BATCHES = ((1, 256), (4, 256), (1, 1024), (4, 1024))
"""Rows of a micro-batch, and their tokens."""


def cases() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yields model, way and settings: each way meets each model, with and without recomputing.

    The batches and the number formats take turns.
    """
    for place, shape in enumerate(SHAPES):
        for number, way in enumerate(WAYS):
            for checkpointing in (False, True):
                rows, tokens = BATCHES[(place + number + 2 * checkpointing) % len(BATCHES)]
                settings = {
                    "gradient_checkpointing": str(checkpointing).lower(),
                    "per_device_train_batch_size": str(rows),
                    "cutoff_len": str(tokens),
                }
                adapts = "finetuning_type" not in WAYS[way]
                if adapts and (place + number + checkpointing) % 2:
                    settings["dtype"] = "bf16"
                yield shape, way, {**WAYS[way], **settings}


def write_model(folder: Path, shape: str) -> Path:
    """Writes a random model whose tokenizer has a token for each of 4,096 words."""
    geometry = SHAPES[shape]
    folder.mkdir(parents=True)
    write_weights(folder, list(specs(geometry, repeated_head=False)), 1, 0)
    text = json.dumps(config(geometry) | {"bos_token_id": 1, "eos_token_id": 2})
    (folder / "config.json").write_text(text)
    return write_tokenizer(folder)


def write_rows(path: Path, stage: str, count: int, tokens: int) -> None:
    """Writes rows that take `tokens` tokens with their answers."""
    half = tokens // 2
    with path.open("w", encoding="utf-8") as file:
        for n in range(0, 3 * count, 3):
            answer = words(n + 1, tokens - half - 1)
            row = {"prompt": words(n, half) + " "}
            if stage == "dpo":
                row |= {"chosen": answer, "rejected": words(n + 2, tokens - half - 1)}
            elif stage == "sft":
                row["completion"] = answer
            else:
                row["answer"] = "w5"
            file.write(json.dumps(row) + "\n")


def run() -> Iterator[Case]:
    """Yields the cases, and the lowest and the highest ratio."""
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(prefix="memory-") as place:
        os.environ |= {"ZOO_GYM_HOME": f"{place}/home", "OMP_NUM_THREADS": "1"}
        for shape, way, settings in cases():
            if not (folder := Path(place) / shape).exists():
                write_model(folder, shape)
            given = [f"{key}={value}" for key, value in settings.items()]
            found = own_process("bench.memory", str(folder), *given)
            peak, ratio = found["peak"] / MB, found["estimate"]["total"] / found["peak"]
            ratios.append(ratio)
            told = f"measured {peak:.0f} MB"
            name = f"{shape}, {way}: {named(settings)}"
            yield Case(name, found["estimate"]["total"] / MB, "MB", told, ratio, "")
    yield Case("lowest", min(ratios), "relative", "the peak", min(ratios), f">= {LOW}")
    yield Case("highest", max(ratios), "relative", "the peak", max(ratios), f"<= {HIGH}")


def named(settings: Mapping[str, str]) -> str:
    """Returns what differs between the runs of a way."""
    rows, tokens = settings["per_device_train_batch_size"], settings["cutoff_len"]
    recomputed = ", recomputed" if settings["gradient_checkpointing"] == "true" else ""
    return f"{rows} x {tokens}{recomputed}, {settings.get('dtype', 'auto')}"


def measured(folder: Path, settings: dict[str, str]) -> dict[str, Any]:
    """Trains in this process; returns the estimate, the peak, and how the peak grew, in bytes."""
    from zoo.gym import TrainConfig, run_training
    from zoo.gym.jobs import events

    stage, rows = settings.get("stage", "sft"), int(settings["per_device_train_batch_size"])
    cutoff = int(settings["cutoff_len"])
    given: dict[str, Any] = {"gradient_accumulation_steps": 1, "max_steps": STEPS}
    if stage == "grpo":
        given |= {"max_completion_length": cutoff - cutoff // 2 - 1, "reward": reward}
    session: Any = import_module("zoo.gym.train.session")
    phases: list[tuple[str, int]] = []
    estimate: dict[str, Any] = {}
    emit, load = events.EventLog.emit, session.load_policy

    def note(phase: str) -> None:
        phases.append((phase, status_bytes("VmHWM")))

    def noted(log: Any, kind: Any, **fields: Any) -> Any:  # noqa: ANN401 - passed on
        note(kind)
        estimate.update(fields.get("memory") or {})
        return emit(log, kind, **fields)

    def loaded(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        policy = load(*args, **options)
        note("loaded")
        return policy

    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "rows.jsonl"
        write_rows(data, stage, 4 * rows, cutoff)
        given |= {"model_name_or_path": folder, "dataset": data}
        config = TrainConfig(**given, **settings)
        with (
            patch.object(events.EventLog, "emit", noted),
            patch.object(session, "load_policy", loaded),
        ):
            run_training(config)
    return {"estimate": estimate, "peak": status_bytes("VmHWM"), "phases": phases}


def reward(query: str, response: str) -> float:
    """Returns a number that differs between answers."""
    return sum(map(ord, query[-4:] + response)) % 7 / 7


if __name__ == "__main__":
    print(
        json.dumps(measured(Path(sys.argv[1]), dict(word.split("=", 1) for word in sys.argv[2:])))
    )
