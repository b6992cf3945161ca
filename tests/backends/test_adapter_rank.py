"""A rank above the smaller side of a layer is taken, and said."""

import warnings
from pathlib import Path

import pytest

from zoo.backends import load_backend
from zoo.backends.adapter_rank import warn_of_rank
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.core.errors import GymWarning

ENGINES = [pytest.param("cpu"), pytest.param("mlx", marks=pytest.mark.mlx)]


def load(engine: str, folder: Path, rank: int) -> None:
    if engine == "mlx":
        pytest.importorskip("mlx_lm", reason="MLX is not installed")
    targets = ("q_proj", "k_proj", "v_proj")
    spec = LoadSpec(train=LoraSpec(rank=rank, alpha=8.0, targets=targets), dtype="f32")
    load_backend(engine).load(folder, spec)


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_and_values_of_32_outputs_have_no_rank_of_33(engine: str, tied: Path) -> None:
    said = r"at most the smaller side of a layer, got 33: '.*k_proj' has 32 and 3 others less"
    with pytest.warns(GymWarning, match=said):
        load(engine, tied, 33)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rank_of_the_smaller_side_is_as_it_should_be(engine: str, tied: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", GymWarning)
        load(engine, tied, 32)


def test_the_narrowest_layer_is_named() -> None:
    sides = {"a": (64, 128), "b": (256, 20), "c": (99, 99), "gate": (1, 128)}
    with pytest.warns(GymWarning, match="got 99: 'b' has 20 and 1 other less than it;"):
        warn_of_rank(99, sides)
