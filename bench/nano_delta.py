"""Training the scales of a 1-bit delta at zen-nano's true shape: time and memory of a step.

The base has random weights and the fine-tune the same with noise, so the figures are of time and
memory alone. A step has 512 tokens. It is compared with a step of supervised fine-tuning of all
weights on those tokens plus the fine-tune's forward pass, in the same process.

usage: python -m bench nano_delta             half an hour of one core, 12 GB of memory and of disk
"""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bench.measure import MB, Case, reset_peak_bytes, status_bytes

if TYPE_CHECKING:
    from zoo.backends.base import Batch, Policy

TOKENS, ROWS, STEPS = 512, 4, 2
NOISE = 1e-3


def write_models(work: Path) -> tuple[Path, Path]:
    """Writes the base and the fine-tune, and returns their folders."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    from bench.zen_nano import EMBEDDING, write_model
    from zoo.models import family_entry
    from zoo.models.tied_head import HEAD

    base = write_model(work / "cache", family_entry("zen-nano"), tokenizer=None, seed=0)
    tuned = work / "tuned"
    shutil.copytree(base, tuned)
    noise = torch.Generator().manual_seed(1)
    for file in tuned.glob("*.safetensors"):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            change = torch.empty(tensor.shape).normal_(0, NOISE, generator=noise)
            tensors[name] = (tensor.float() + change).to(tensor.dtype)
        if HEAD in tensors:  # the file repeats the tied embedding
            tensors[HEAD] = tensors[EMBEDDING].clone()
        file.unlink()
        save_file(tensors, file, metadata={"format": "pt"})
    return base, tuned


def batch() -> "Batch":
    """Returns the rows of a step: every token but the first of each is learned."""
    import numpy as np

    from zoo.gym.data.batches import collate
    from zoo.gym.data.units import Example, alone

    width, random = TOKENS // ROWS, np.random.default_rng(0)
    rows = [
        Example(random.integers(0, 50_000, width), np.arange(width) > 0, f"{n}", truncated=False)
        for n in range(ROWS)
    ]
    return collate(alone(rows), {"window_tokens": float(ROWS * (width - 1))})


def seconds(work: Callable[[], object]) -> float:
    """Returns the median CPU seconds of two steps, after one to warm up."""
    work()
    times = []
    for _ in range(STEPS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return median(times)


def supervised(base: Path) -> float:
    """Returns the CPU seconds of a step of all weights."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.gym.objectives.sft import SupervisedLoss

    policy, rows = load_backend("cpu").load(base, LoadSpec(train="full")), batch()

    def step() -> None:
        policy.accumulate(SupervisedLoss(), rows, key=0)
        policy.optimizer_step(1e-6, 1.0)

    return seconds(step)


def teacher_of(tuned: Path) -> "Policy":
    """Returns the fine-tune as a teacher, its layers in their file."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec

    return load_backend("cpu").load(tuned, LoadSpec(stream_layers=True))


def forward(tuned: Path) -> float:
    """Returns the CPU seconds of the fine-tune's forward pass."""
    from zoo.backends.base import Stat

    teacher, rows = teacher_of(tuned), batch()
    return seconds(lambda: teacher.score(rows, frozenset({Stat.LOGPROBS})))


def distilled(base: Path, tuned: Path, delta: Path) -> float:
    """Returns the CPU seconds of a step of the delta's scales."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.gym.objectives.distillation import DistillationLoss
    from zoo.gym.train.methods.distill_delta import DistillDelta

    config: Any = SimpleNamespace(
        delta_file=str(delta),
        trains_adapter=False,
        first_adapter=None,
        finetuning_type="full",
        stream_layers=True,
    )
    spec = LoadSpec(stream_layers=True, dtype="bf16", gradient_checkpointing=True)
    inner = load_backend("cpu").load(base, spec)
    policy, teacher, rows = DistillDelta.policy_of(inner, config, base), teacher_of(tuned), batch()

    def step() -> None:
        policy.accumulate(DistillationLoss(), rows, key=0, teacher=teacher)
        policy.optimizer_step(0.05, 1.0)

    return seconds(step)


def run() -> Iterator[Case]:
    """Yields the time of a step, and the memory of training."""
    from zoo.gym import create_delta

    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
        base, tuned = write_models(Path(folder))
        delta = create_delta(tuned, base=base, out=Path(folder) / "delta.safetensors").file
        gc.collect()
        reset_peak_bytes()
        of_delta = distilled(base, tuned, delta)
        peak = status_bytes("VmHWM")
        gc.collect()
        plain = supervised(base) + forward(tuned)
        yield Case(
            "a step of scales", of_delta, "CPU-s", "SFT + forward", of_delta / plain, "<= 1.5"
        )
        gigabytes = peak / MB / 1000
        yield Case("peak of training scales", gigabytes, "GB", "4.0 GB", gigabytes / 4.0, "<= 1")
