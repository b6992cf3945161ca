"""Weights of rows in runs: they multiply the loss, padded and packed, or are refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.methods.pairs import events, settings, write_pairs
from zoo.gym import run_training
from zoo.gym.data.units import WEIGHT, Example, weight_of, weighted
from zoo.gym.experience.distilling.method import answered
from zoo.gym.train.methods.rm import ended


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pairs that all weigh 2."""
    path = write_pairs(tmp_path)
    rows = [{**json.loads(line), "weight": 2} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "packing", "loss"), [("dpo", True, 0.6931), ("rm", False, 0.6931), ("kto", True, 0.5)]
)
def test_a_weight_multiplies_the_loss_of_a_run(
    pairs: Path, stage: str, packing: bool, loss: float
) -> None:
    given: dict[str, Any] = {"max_steps": 1, "packing": packing}
    run = run_training(settings(pairs, stage, **given))
    # before the first step all margins are 0: -log sigmoid(0) = log 2, and 1 - sigmoid(0) = 0.5
    assert events(run, "eval")[0]["loss"] == pytest.approx(2 * loss, abs=1e-4)
    assert events(run, "step")[0]["loss"] == pytest.approx(2 * loss, abs=1e-4)


def test_weights_are_refused_where_the_loss_sorts_the_pairs(pairs: Path) -> None:
    with raises("train.row_weight", r"pairs.jsonl:\d+: weight: expected 1 .*aot"):
        run_training(settings(pairs, "dpo", pref_loss="sigmoid,aot"))


def test_rows_that_a_method_makes_of_others_keep_their_weight() -> None:
    row = Example(np.array([5, 6]), np.array([False, True]), "row", truncated=False)
    row = weighted(row, 3.0)
    assert weight_of(ended(row, None)) == weight_of(answered(row, [7])) == 3
    assert ended(row, None).extras.keys() == {WEIGHT}
