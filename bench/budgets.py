"""What `delta create --max-bytes` chooses, beside the best of all codings that fit.

Five budgets for each fine-tune: the adapter and the full weights of the tasks of bench/deltas, and
zen-nano's true shape with random weights, of which the fine-tune is the same with noise. Every
coding is made and measured; the ratio is the divergence of the choice to the lowest that fits.

usage: python -m bench budgets                half an hour of one core, 12 GB of memory and of disk
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.deltas import SPEAKERS, STORIES, TASKS
from bench.measure import Case, Skipped

if TYPE_CHECKING:
    from zoo.gym.delta import QualityInput
    from zoo.gym.delta.budget import Candidate

BUDGETS = 5
NANO_TOKENS = 128


def every_coding(
    source: Path, base: Path, quality: "QualityInput", work: Path
) -> list["Candidate"]:
    """Returns each coding of a fine-tune with its bytes and its divergence."""
    from zoo.gym import create_delta
    from zoo.gym.delta.budget import RESERVED, Candidate, candidates

    measured: list[Candidate] = []
    for config in candidates(source, base):
        out = work / "delta.safetensors"
        report = create_delta(
            source, base=base, out=out, config=config, quality=quality, force=True
        )
        assert report.quality is not None
        size = report.file_bytes + RESERVED  # the bytes that the choice counts with
        measured.append(Candidate(config, size, report.quality.kl))
    return measured


def budgets(codings: list["Candidate"]) -> list[int]:
    """Returns budgets from the smallest coding to the largest, evenly by their logarithms."""
    import numpy as np

    sizes = [each.file_bytes for each in codings]
    return [int(size) + 1 for size in np.geomspace(min(sizes), max(sizes), BUDGETS)]


def compared(
    name: str, source: Path, base: Path, quality: "QualityInput", work: Path
) -> Iterator[Case]:
    """Yields the choice for each budget beside the best coding that fits."""
    from zoo.gym.delta.budget import choose_within

    codings = every_coding(source, base, quality, work)
    for budget in budgets(codings):
        config, _ = choose_within(source, base, budget, quality)
        [chosen] = [each for each in codings if each.config == config]
        fitting = [each for each in codings if each.file_bytes <= budget]
        best = min(fitting, key=lambda each: each.kl or 0.0)
        ratio = (chosen.kl or 0.0) / best.kl if best.kl else 1.0 + (chosen.kl or 0.0)
        case = f"{name}, {budget:,} B: {chosen.options}"
        yield Case(case, chosen.kl or 0.0, "nats", f"best: {best.options}", ratio, "<= 1.05")


def of_task(name: str, work: Path) -> Iterator[Case]:
    """Yields the budgets of an adapter and of full weights."""
    from zoo.gym import TrainConfig, quality_input, run_training

    task, file = TASKS[name](0), work / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in task.rows))
    for kind, settings in (("full", task.full), ("lora", task.lora)):
        config = TrainConfig(
            model_name_or_path=task.base,
            dataset=file,
            seed=0,
            val_size=0.05,
            offline=True,
            retention=False,
            finetuning_type=kind,
            **settings,
        )
        run = run_training(config)
        quality = quality_input(base=task.base, run=run.run)
        yield from compared(f"{name}, {kind}", run.model, task.base, quality, work)


def of_nano(work: Path) -> Iterator[Case]:
    """Yields the budgets of a fine-tune of zen-nano's shape."""
    import numpy as np

    from bench.nano_delta import write_models
    from zoo.gym.data.units import Example
    from zoo.gym.delta import QualityInput

    base, tuned = write_models(work)
    ids = np.random.default_rng(0).integers(0, 50_000, NANO_TOKENS)
    row = Example(ids, np.arange(NANO_TOKENS) > 0, "0", truncated=False)
    yield from compared("zen-nano, random", tuned, base, QualityInput([row]), work)


def run() -> Iterator[Case | Skipped]:
    """Yields five budgets of each fine-tune."""
    for name in ("speakers", "spelling", "zen-nano"):
        if name == "speakers" and not (SPEAKERS.exists() and STORIES.exists()):
            yield Skipped(name, f"it needs {SPEAKERS} and {STORIES}")
            continue
        with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
            work = Path(folder)
            os.environ["ZOO_GYM_HOME"] = str(work / "home")
            yield from of_nano(work) if name == "zen-nano" else of_task(name, work)
