"""The file of a result: what is left of contributions, in 8 bits."""

from pathlib import Path

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import terms
from zoo.gym.delta.rebuild import difference
from zoo.gym.rounds.compute.result import write_result
from zoo.gym.rounds.encodings import Piece


def pieces(size: float) -> list[Piece]:
    rng = np.random.default_rng(0)
    return [
        Piece(one.name, 0, np.float32(size) * rng.standard_normal(one.size, np.float32))
        for one in terms().tensors
    ]


@pytest.mark.parametrize("size", [1e-5, 1.0])
def test_a_result_is_near_to_what_was_combined(size: float, tmp_path: Path) -> None:
    given = pieces(size)
    found = write_result(iter(given), terms(), {}, tmp_path / "result")
    for piece, tensor in zip(given, found.header.tensors, strict=True):
        lost = np.abs(difference(found, tensor).reshape(-1) - piece.values)
        assert lost.max() <= size / 50


@pytest.mark.parametrize("size", [0.0, 1e-10])
def test_a_result_that_rounds_to_nothing_is_none(size: float, tmp_path: Path) -> None:
    with raises("rounds.cancel_out", "got contributions that cancel out or round to 0"):
        write_result(iter(pieces(size)), terms(), {}, tmp_path / "result")
    assert not (tmp_path / "result").exists()
