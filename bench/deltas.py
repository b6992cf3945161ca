"""Bytes against divergence for every coding of a delta, on three tasks and three seeds.

Speakers: stories260K learns the lines of one of Shakespeare's speakers, another each seed.
Spelling: zen-pico spells words backwards, as in the demo. Key: zen-pico learns the secret
substitution of a user, another each seed. Each task is learned with full weights and with an
adapter. A delta's divergence is KL(fine-tune || delta) in nats per token on rows that nothing has
learned; an adapter that is trained in 1 bit is compared with the one that is not. The gain that
the delta of a key gives to the user of the next is measured as well.

usage: python -m bench deltas                 speakers need ../shared/data
"""

import json
import os
import random
import shutil
import string
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.measure import Case, Skipped

if TYPE_CHECKING:
    from zoo.gym.delta import Delta, DeltaReport, QualityInput

SHARED = Path(__file__).parents[2] / "shared"
STORIES = SHARED / "data/models/stories260K"
SPEAKERS = SHARED / "data/federated/shakespeare_by_speaker.jsonl"
SEEDS = (0, 1, 2)
SIGNS = "signs.safetensors"
"""The delta of 1 bit, which the next user of a key compares with."""

SMALL_RATE = 2e-6
"""Steps so small that rounding to bf16 undoes many of them."""

DENSE: dict[str, dict[str, Any]] = {
    "1 bit, row scales": {},
    "1 bit, matrix scales": {"scale": "matrix"},
    "1 bit, group scales": {"scale": "group"},
    "2 planes": {"planes": 2},
    "ternary": {"codec": "ternary"},
    "2 bits": {"bits": 2},
    "4 bits": {"bits": 4},
}
LOWRANK: dict[str, dict[str, Any]] = {
    "adapter, bf16": {"codec": "bf16"},
    "adapter, 4 bits": {"bits": 4},
    "adapter, 2 bits": {},
    "adapter, 1 bit": {"bits": 1},
}
TRAINED = (
    *("1 bit, row scales", "1 bit, matrix scales", "ternary", "2 bits"),
    *("adapter, 2 bits", "adapter, 1 bit"),
)
"""The codings that are also trained to predict what the fine-tune predicts."""

KEPT = {
    "adapter, 4 bits": ">= 0.98",
    "adapter, 2 bits": ">= 0.93",
    "adapter, 1 bit, distilled": ">= 0.85",
    "adapter, trained in 1 bit": ">= 0.85",
    "random signs": "<= 0.1",
    "the delta of another key": "<= 0.1",
}
"""The bounds of the share of the gain that a delta keeps."""


@dataclass(frozen=True)
class Task:
    """What a model learns.

    Attributes:
        base: the model.
        rows: the examples.
        full: settings of a full fine-tune.
        lora: settings of an adapter.
        bar: the bound of the divergence with trained scales, as a share of that without.
    """

    base: Path
    rows: list[dict[str, str]]
    full: Mapping[str, Any]
    lora: Mapping[str, Any]
    bar: float


def speakers(seed: int) -> Task:
    """stories260K learns the speaker with the most texts, the second or the third."""
    lines = SPEAKERS.read_text(encoding="utf-8").splitlines()
    users = sorted(map(json.loads, lines), key=lambda user: -sum(map(len, user["texts"])))
    rows = [{"text": text} for text in users[seed]["texts"]]
    return Task(STORIES, rows, {}, {}, 0.7)


def spelling(seed: int) -> Task:
    """zen-pico spells words backwards, with the settings of the demo."""
    from zoo.gym.demo.run import RECIPES
    from zoo.gym.demo.run import SHARED as COMMON
    from zoo.gym.demo.words import backward, make_words, prompt
    from zoo.models import pico_folder

    rows = [{"prompt": prompt(w), "completion": backward(w)} for w in make_words(4000, 0).train]
    random.Random(seed).shuffle(rows)
    common = {key: COMMON[key] for key in ("gradient_accumulation_steps",)}
    return Task(pico_folder(), rows, common | RECIPES["full"], common | RECIPES["lora"], 0.5)


def key(seed: int) -> Task:
    """zen-pico writes words with the letters that a user's secret key puts in their place."""
    from zoo.gym.demo.run import RECIPES
    from zoo.gym.demo.words import make_words
    from zoo.models import pico_folder

    letters = list(string.ascii_lowercase)
    random.Random(seed).shuffle(letters)
    table = str.maketrans(string.ascii_lowercase, "".join(letters))
    words = make_words(4000, 0).train
    rows = [{"prompt": f"Encode: {w}", "completion": w.translate(table)} for w in words]
    common = {"gradient_accumulation_steps": 1}
    return Task(pico_folder(), rows, common | RECIPES["full"], common | RECIPES["lora"], 0.5)


TASKS = {"speakers": speakers, "spelling": spelling, "key": key}


@dataclass(frozen=True)
class Point:
    """A delta: its size, its divergence, and the share of the gain that it keeps."""

    size_bytes: int
    kl: float
    kept: float


def points(task: Task, seed: int, work: Path, other: Path | None) -> Iterator[tuple[str, Point]]:
    """Trains both fine-tunes of a task, and yields every delta by its name.

    Args:
        task: what is learned.
        seed: of the runs.
        work: an empty folder; the delta of 1 bit will be in it.
        other: a delta of another user, to be measured on this one's rows.
    """
    from zoo.gym import TrainConfig, create_delta, load_delta, quality_input, run_training
    from zoo.gym.config.delta import DeltaConfig
    from zoo.gym.delta import random_signs
    from zoo.gym.jobs.run import open_run
    from zoo.gym.published.distilled import distill_delta

    file = work / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in task.rows))
    shared: dict[str, Any] = {"model_name_or_path": task.base, "dataset": file, "seed": seed}
    shared |= {"val_size": 0.05, "offline": True, "retention": False}
    for kind, settings, codings in (("full", task.full, DENSE), ("lora", task.lora, LOWRANK)):
        run = run_training(TrainConfig(**shared, **settings, finetuning_type=kind))
        held_out = quality_input(base=task.base, run=run.run)
        create = partial(create_delta, run.model, base=task.base, quality=held_out, force=True)
        trained = partial(distill_delta, base=task.base, tuned=run.model, run=open_run(run.run))
        for name, options in codings.items():
            config, out = DeltaConfig(**options), work / "delta.safetensors"
            yield name, _point(create(out=out, config=config))
            if name in TRAINED:
                distilled = create(out=out, config=config, distill=trained)
                yield f"{name}, distilled", _point(distilled)
        if kind == "lora":
            coded = run_training(TrainConfig(**shared, **settings, delta_bits=1))
            delta = create_delta(
                coded.model, base=task.base, out=work / "coded", config=DeltaConfig(bits=1)
            )
            yield (
                "adapter, trained in 1 bit",
                _measured(load_delta(delta.file), task.base, run.model, held_out),
            )
        if kind == "full":
            signs = create_delta(run.model, base=task.base, out=work / SIGNS).file
            control = random_signs(signs, work / "random.safetensors", seed=0)
            yield "random signs", _measured(control, task.base, run.model, held_out)
            if other is not None:
                yield (
                    "the delta of another key",
                    _measured(load_delta(other), task.base, run.model, held_out),
                )


def of_zeros(work: Path) -> Iterator[Case]:
    """Yields what a mask of zeros gains where a fine-tune in bf16 left weights as they were."""
    from zoo.gym import TrainConfig, create_delta, quality_input, run_training
    from zoo.gym.config.delta import DeltaConfig

    task, file = spelling(0), work / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in task.rows))
    settings: dict[str, Any] = {**task.full, "learning_rate": SMALL_RATE, "finetuning_type": "full"}
    settings |= {"val_size": 0.05, "offline": True, "retention": False}
    run = run_training(TrainConfig(model_name_or_path=task.base, dataset=file, seed=0, **settings))
    tuned = work / "bf16"
    unchanged = _write_in_bf16(run.model, task.base, tuned)
    held_out = quality_input(base=task.base, run=run.run)
    kl: dict[str, float] = {}
    for zero in ("minus", "mask"):
        config, out = DeltaConfig(zero=zero), work / f"{zero}.safetensors"
        kl[zero] = _point(
            create_delta(tuned, base=task.base, out=out, config=config, quality=held_out)
        ).kl
    name = f"a mask, {unchanged:.0%} of the weights unchanged"
    yield Case(name, kl["mask"], "nats", "KL without it", kl["mask"] / kl["minus"], "<= 0.9")


def _write_in_bf16(model: Path, base: Path, folder: Path) -> float:
    """Writes a model in bf16, and returns the share of the base's weights that are as they were."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, folder)
    [file] = folder.glob("*.safetensors")
    [base_file] = base.glob("*.safetensors")
    before = load_file(base_file)
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    same = sum(int((tensors[name] == tensor).sum()) for name, tensor in before.items())
    return same / sum(tensor.numel() for tensor in before.values())


def _point(report: "DeltaReport") -> Point:
    quality = report.quality
    assert quality is not None
    return Point(report.file_bytes, quality.kl or 0.0, quality.recovered or 0.0)


def _measured(delta: "Delta", base: Path, tuned: Path, held_out: "QualityInput") -> Point:
    from zoo.gym.delta.quality import measure_quality

    quality = measure_quality(base, tuned, delta, held_out)
    return Point(delta.file_bytes, quality.kl or 0.0, quality.recovered or 0.0)


def run() -> Iterator[Case | Skipped]:
    """Yields each coding of each task: the median of the seeds."""
    for name, task in TASKS.items():
        if name == "speakers" and not (SPEAKERS.exists() and STORIES.exists()):
            yield Skipped(name, f"it needs {SPEAKERS} and {STORIES}")
            continue
        by_name: dict[str, list[Point]] = {}
        other: Path | None = None
        with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
            for seed in SEEDS:
                work = Path(folder) / f"{seed}"
                work.mkdir()
                os.environ["ZOO_GYM_HOME"] = str(work / "home")
                for coding, point in points(task(seed), seed, work, other):
                    by_name.setdefault(coding, []).append(point)
                other = work / SIGNS if name == "key" else None
        yield from _cases(name, by_name, task(0).bar)
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
        os.environ["ZOO_GYM_HOME"] = str(Path(folder) / "home")
        yield from of_zeros(Path(folder))


def _cases(task: str, by_name: Mapping[str, list[Point]], bar: float) -> Iterator[Case]:
    for coding, deltas in by_name.items():
        size = median(delta.size_bytes for delta in deltas)
        kl = median(delta.kl for delta in deltas)
        kept = median(delta.kept for delta in deltas)
        name, limit = f"{task}: {coding}, {size:,.0f} B", KEPT.get(coding, "")
        yield Case(name, kl, "nats", "gain kept", kept, limit)
        if coding == "1 bit, row scales, distilled":
            plain = median(delta.kl for delta in by_name["1 bit, row scales"])
            yield Case(f"{task}: of that", kl, "nats", "KL untrained", kl / plain, f"<= {bar}")
