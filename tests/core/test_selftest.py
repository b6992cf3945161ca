"""The self-test passes on this machine and tells the first difference where there is one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.core import available_isas, self_test
from zoo.core.isa import Isa


def test_every_instruction_set_of_this_machine_passes() -> None:
    verdicts = self_test()
    assert [verdict.isa for verdict in verdicts] == list(available_isas())
    assert all(verdict.ok and verdict.checked >= 60 for verdict in verdicts), verdicts


def wrong(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "good", np.zeros((2, 3))
    bad = np.zeros((2, 3), np.float32)
    bad[1, 2] = 0.0 if isa == "scalar" else -0.0
    yield "bad", bad


def test_the_first_difference_is_named_with_its_place() -> None:
    (verdict,) = self_test(("avx2",), checks={"wrong": wrong})
    assert not verdict.ok
    assert verdict.difference == "bad at (1, 2): expected 0.0, got -0.0"


def shorter(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "sums", np.zeros(3 if isa == "scalar" else 2)


def test_another_shape_is_a_difference() -> None:
    (verdict,) = self_test(("avx2",), checks={"shorter": shorter})
    assert verdict.difference == "sums: expected float64 (3,), got float64 (2,)"
