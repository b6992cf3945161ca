"""A real model learns which answers people prefer, seen on pairs that it did not train on.

A held-out pair counts as right if the model itself gives the better answer a higher probability
than the worse one, without a reference. Prints the figures, also what is forgotten: half of what
the model answered, at this rate, because preference methods retain nothing yet.

Legend: N pairs.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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


@pytest.mark.real
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_dpo_makes_better_answers_likelier(
    smollm2_folder: Path,
    shared: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    pairs = json.loads(shared(PAIRS).read_text(encoding="utf-8"))
    learned, rest = pairs[:LEARNED], pairs[LEARNED:]
    held_out = [pair for pair in rest if pair["chosen"] != pair["rejected"]][:HELD_OUT]
    result = run_training(
        TrainConfig(
            model_name_or_path=smollm2_folder,
            dataset=learned,
            stage="dpo",
            num_train_epochs=1,
            learning_rate=3e-4,  # the default moves a pair by a nat in one epoch
            val_size=0,
            offline=True,
        )
    )
    base_N = margins(smollm2_folder, None, held_out)
    tuned_N = margins(smollm2_folder, result.model, held_out)
    right_N, learned_N = (base_N > 0).astype(float), (tuned_N > 0).astype(float)
    print(line("base", right_N), line("tuned", learned_N), line("gain", learned_N - right_N))
    figures = result.metrics["retention"]
    print(line("margin gained, nats", tuned_N - base_N), figures)
    assert interval(learned_N - right_N)[0] > 0
