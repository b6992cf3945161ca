"""Two processes with a divided policy have the numbers of the whole one; see `divided_ranks`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backends.conftest import write_tiny
from tests.backends.divided_ranks import CASES
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.backends.optimizer_spec import OptimizerSpec
from zoo.backends.spec import QuantizationSpec
from zoo.backends.torch.divided.divide import layers_of
from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.parallel.shares import share_of

FEW = ["lora", "full", "pissa, whole", "critic", "distill full", "bf16 widened"]

ERRORS = ("norms", "weights", "resumed whole", "resumed divided", "scores", "reference")
"""Relative errors; the sums of two processes are rounded elsewhere."""

LIMIT = 1e-6

BF16 = 2.0**-8
"""The limit with products in bf16: a sum that is rounded elsewhere may be the next number there."""


def both(folder: Path, model: Path, names: list[str]) -> list[list[dict[str, Any]]]:
    """Returns what each of two processes prints about the cases."""
    folder.mkdir()
    argv = [sys.executable, "-m", "tests.backends.divided_ranks"]
    running = [
        subprocess.Popen(
            [*argv, str(rank), str(folder), str(model), *names], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=600)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return [[json.loads(line) for line in text.splitlines()] for text in printed]


def check(case: dict[str, Any]) -> None:
    limit = BF16 if case["name"] == "bf16" else LIMIT
    for name in ERRORS:
        assert case[name] < limit, (case["name"], name, case[name])
    assert case["weights"] < case["moved"] / 10, (case["name"], case["weights"], case["moved"])
    assert case["answers"]
    assert case.get("reassembled", 0.0) < limit


@pytest.mark.nightly
def test_a_divided_policy_has_the_numbers_of_a_whole_one(tmp_path: Path) -> None:
    # three rows of 67 are not divided evenly, nor is a value head of one row
    model = write_tiny(tmp_path / "model", tied=True, intermediate_size=67, vocab_size=501)
    first, second = both(tmp_path / "run", model, FEW)
    assert [case["name"] for case in first] == [one.name for one in CASES if one.name in FEW]
    for case in (*first, *second):
        check(case)
    # each has half of it, up to uneven rows
    assert all(0.48 < case["share"] < 0.52 for case in (*first, *second))


@pytest.mark.nightly
def test_every_kind_of_training_can_be_divided(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model", tied=False)
    for cases in both(tmp_path / "run", model, []):
        assert len(cases) == len(CASES)
        for case in cases:
            check(case)


def test_shares_together_are_the_whole() -> None:
    for rows in (1, 4, 5, 6):
        whole = torch.arange(rows * 2.0).view(rows, 2)
        parts = [share_of(whole, rank, 4) for rank in range(4)]
        assert torch.equal(torch.cat(parts), whole)
    assert share_of(torch.tensor(3.0), 3, 4) == 3


def test_layers_of_which_a_row_uses_some_are_not_divided(tied: Path) -> None:
    policy: Any = load_backend("cpu").load(tied)
    module: LossModule = policy.module
    layers = layers_of(module)
    assert len(layers) == 2
    layers[1].experts = torch.nn.ModuleList([torch.nn.Linear(2, 2)])
    with raises("torch.cannot_be_divided", "sharding: expected layers whose every weight"):
        layers_of(module)


@pytest.mark.parametrize(
    "other",
    [
        {"quantization": QuantizationSpec(bits=4)},
        {"stream_layers": True},
        {"liger": True},
        {"optimizer": OptimizerSpec(name="muon")},
    ],
)
def test_what_cannot_be_divided_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sharded: expected False with this base"):
        LoadSpec(train=LoraSpec(), sharded=True, **other)
