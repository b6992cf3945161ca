"""Preference methods on real pairs: do unseen pairs move apart as the data ranks them?

stories260K learns 500 pairs of answers, a polite and an impolite one for most, with the defaults of
each method except for those in `METHODS`. Of 150 unseen pairs whose prompt and answer have less
than 160 characters, those are counted whose margin grew: the log-probability of the better answer
minus that of the worse one, and for methods that compare means per token the difference of the
means. The same training on labels that are swapped at random shows the figure without information:
the mean of two runs, with a random half of the labels swapped and with the other half, because one
direction of change moves many pairs alike (KTO: 0.43 to 0.70 in three draws).

usage: python -m bench.preference [FOLDER]    FOLDER contains data/; ../shared by default;
                                              it takes about 8 minutes of one core
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bench.measure import Case, Skipped, line

if TYPE_CHECKING:
    from zoo.gym.data import Unit

SHARED = Path(__file__).parents[2] / "shared"
MODEL = "data/models/stories260K"
PAIRS = "data/preference/instruction-data-with-preference.json"
FILES = (MODEL, PAIRS)
LEARNED, UNSEEN, MOST_CHARACTERS = 500, 150, 160

METHODS: Mapping[str, Mapping[str, Any]] = {
    "dpo": {},
    "kto": {"num_train_epochs": 2},
    "orpo": {"pref_beta": 10},
    "simpo": {},
}
"""Each method with the settings that are not its defaults."""

PER_TOKEN = frozenset({"orpo", "simpo"})
"""The methods that compare means per token."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Learned:
    """The share of unseen pairs whose margin grew, and the CPU seconds of training."""

    accuracy: float
    cpu_s: float


def short_pairs(root: Path) -> tuple[list[Row], list[Row]]:
    """Returns the pairs to learn and the unseen ones: all different, and short."""
    rows: list[Row] = json.loads((root / PAIRS).read_text(encoding="utf-8"))
    fits = [
        row for row in rows if row["chosen"] != row["rejected"] and _length(row) < MOST_CHARACTERS
    ]
    random.Random(0).shuffle(fits)
    return fits[:LEARNED], fits[LEARNED : LEARNED + UNSEEN]


def _length(row: Row) -> int:
    asked = len(row["instruction"]) + len(row["input"])
    return asked + max(len(row["chosen"]), len(row["rejected"]))


def swapped(rows: Sequence[Row], half: bool) -> list[Row]:
    """Returns the rows with labels swapped in a random half of them, or in the other half."""
    coin = random.Random(1)
    other = {"chosen": "rejected", "rejected": "chosen"}
    return [
        {key: row[other.get(key, key)] for key in row} if (coin.random() < 0.5) == half else row
        for row in rows
    ]


def measure(
    root: Path, stage: str, rows: Sequence[Row], unseen: Sequence[Row], **settings: object
) -> Learned:
    """Trains on rows with a method, and returns what the unseen pairs show."""
    from zoo.gym import run_training
    from zoo.gym.config import TrainConfig

    config = TrainConfig(
        model_name_or_path=str(root / MODEL),
        dataset=rows,
        stage=stage,
        date="2026-01-01",
        **{**METHODS[stage], **settings},
    )
    run = run_training(config)
    before, after = (
        margins(root, adapter, unseen, per_token=stage in PER_TOKEN)
        for adapter in (None, run.model)
    )
    grew = sum(new > old for new, old in zip(after, before, strict=True))
    cpu_s: Any = run.metrics["training_cpu_s"]
    return Learned(grew / len(unseen), cpu_s)


def margins(
    root: Path, adapter: Path | None, rows: Sequence[Row], *, per_token: bool
) -> list[float]:
    """Returns the margin of each pair under stories260K, or under it with an adapter."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec, Stat
    from zoo.gym.data.batches import collate

    policy = load_backend("cpu").load(root / MODEL, LoadSpec(adapter=adapter, dtype="f32"))
    found: list[float] = []
    for unit in encoded(root, rows):
        batch = collate([unit])
        scores = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS].sum(1)
        counts = batch.loss_mask_BT.sum(1) if per_token else 1
        better, worse = scores / counts
        found.append(float(better - worse))
    return found


def encoded(root: Path, rows: Sequence[Row]) -> "Sequence[Unit]":
    """Returns pairs in tokens of stories260K."""
    from zoo.gym.data import EncodeOptions, encode_records, load_tokenizer
    from zoo.gym.data.reading.preference import parse_pair

    records = [parse_pair(row, f"pair:{place}") for place, row in enumerate(rows)]
    return encode_records(records, load_tokenizer(root / MODEL), EncodeOptions(512)).units


def cases(stage: str, true: Learned, *chances: Learned) -> Iterator[Case]:
    """Yields the figures of a method, with the true labels and with swapped ones."""
    share = "share"
    chance = sum(one.accuracy for one in chances) / len(chances)
    yield Case(f"{stage}: labels of the data", true.accuracy, share, "1", true.accuracy, ">= 0.75")
    yield Case(f"{stage}: swapped labels", chance, share, "1", chance, "<= 0.6")
    yield Case(f"{stage}: training", true.cpu_s, "CPU-s", "30 CPU-s", true.cpu_s / 30, "<= 1")


def run(shared: Path = SHARED) -> Iterator[Case | Skipped]:
    """Yields the figures of all methods."""
    if absent := [name for name in FILES if not (shared / name).exists()]:
        yield Skipped("preference", f"{shared / absent[0]} is absent")
        return
    learned, unseen = short_pairs(shared)
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, {"ZOO_GYM_HOME": home}):
        for stage in METHODS:
            halves = (swapped(learned, half) for half in (True, False))
            found = (measure(shared, stage, rows, unseen) for rows in (learned, *halves))
            yield from cases(stage, *found)


if __name__ == "__main__":
    for case in run(*map(Path, sys.argv[1:2])):
        print(line(case) if isinstance(case, Case) else f"{case.name}: {case.reason}", flush=True)
