"""A real model learns which answers people prefer, seen on pairs that it did not train on.

A held-out pair counts as right if the model itself gives the better answer a higher probability
than the worse one, without a reference. Prints the figures.

Legend: N pairs.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.real.intervals import interval, line
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Stat
from zoo.gym import TrainConfig, run_training
from zoo.gym.data import EncodeOptions, encode_records, load_tokenizer
from zoo.gym.data.batches import collate
from zoo.gym.data.reading.preference import parse_pair
from zoo.gym.retention.answer import DATE

PAIRS = "data/preference/instruction-data-with-preference.json"
LEARNED, HELD_OUT = 500, 100

pytestmark = [pytest.mark.real, pytest.mark.nightly, pytest.mark.timeout(3600)]


def margins(
    folder: Path, adapter: Path | None, pairs: Sequence[Mapping[str, str]]
) -> NDArray[np.float64]:
    """Returns log p(chosen) - log p(rejected) of each pair, in nats."""
    policy = load_backend("cpu").load(folder, LoadSpec(adapter=adapter, dtype="f32"))
    records = [parse_pair(pair, f"pair:{n}") for n, pair in enumerate(pairs)]
    encoded = encode_records(records, load_tokenizer(folder), EncodeOptions(2048, date=DATE))
    batches = (collate([unit]) for unit in encoded.units)
    needs = frozenset({Stat.LOGPROBS})
    sums = [policy.score(batch, needs)[Stat.LOGPROBS].sum(1) for batch in batches]
    return np.array([chosen - rejected for chosen, rejected in sums], dtype=np.float64)


@dataclass(frozen=True)
class Outcome:
    """What a run changed: margins of the held-out pairs before and after, and what was kept."""

    before_N: NDArray[np.float64]
    after_N: NDArray[np.float64]
    retention: dict[str, Any]


@pytest.fixture(scope="module")
def outcome(
    smollm2_folder: Path, shared: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    pairs = json.loads(shared(PAIRS).read_text(encoding="utf-8"))
    learned, rest = pairs[:LEARNED], pairs[LEARNED:]
    held_out = [pair for pair in rest if pair["chosen"] != pair["rejected"]][:HELD_OUT]
    settings = TrainConfig(
        model_name_or_path=smollm2_folder,
        dataset=learned,
        stage="dpo",
        num_train_epochs=1,
        learning_rate=3e-4,  # the default moves a pair by a nat in one epoch
        val_size=0,
        offline=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        result = run_training(settings)
    before_N = margins(smollm2_folder, None, held_out)
    after_N = margins(smollm2_folder, result.model, held_out)
    figures: Any = result.metrics["retention"]
    print(line("margin gained, nats", after_N - before_N), figures)
    return Outcome(before_N, after_N, figures)


def test_dpo_makes_better_answers_likelier(outcome: Outcome) -> None:
    base_N, tuned_N = (outcome.before_N > 0).astype(float), (outcome.after_N > 0).astype(float)
    print(line("base", base_N), line("tuned", tuned_N), line("gain", tuned_N - base_N))
    assert interval(tuned_N - base_N)[0] > 0


def test_dpo_keeps_what_the_model_answered(outcome: Outcome) -> None:
    figures = outcome.retention
    assert figures["kept"] >= 0.85 * figures["right"]
    assert figures["loss_after"] <= 1.03 * figures["loss_before"]
