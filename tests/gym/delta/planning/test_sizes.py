"""Payload bytes, planned from a geometry."""

import pytest

from zoo.gym.delta import dense_bytes, lowrank_bytes
from zoo.gym.delta.codecs.options import Dense
from zoo.models import Geometry, registry

GEOMETRIES = {entry.alias: entry.geometry for entry in registry()}


@pytest.mark.parametrize(
    ("alias", "lowrank", "linear", "dense"),
    [
        ("zen-pico", 42_752, 118_784, 129_696),
        ("zen-nano", 2_759_680, 56_426_496, 76_744_192),
        ("zen-eco", 9_031_680, 458_588_160, 508_599_808),
    ],
)
def test_the_family_takes_the_designed_bytes(
    alias: str, lowrank: int, linear: int, dense: int
) -> None:
    geometry = GEOMETRIES[alias]
    assert lowrank_bytes(geometry) == lowrank
    assert dense_bytes(geometry, linear_only=True) == linear
    assert dense_bytes(geometry) == dense


@pytest.mark.parametrize(
    ("alias", "coding", "designed"),
    [
        ("zen-nano", Dense("int", 4), 227_082_240),
        ("zen-eco", Dense("int", 4), 1_873_428_480),
        ("zen-nano", Dense("int", 2), 116_981_760),
        ("zen-eco", Dense("int", 2), 965_099_520),
        ("zen-nano", Dense("ternary"), 95_047_680),
        ("zen-eco", Dense("ternary"), 783_544_320),
    ],
)
def test_a_dense_coding_takes_the_designed_bytes(alias: str, coding: Dense, designed: int) -> None:
    assert dense_bytes(GEOMETRIES[alias], coding=coding, linear_only=True) == designed


@pytest.mark.parametrize(("alias", "designed"), [("zen-nano", 1_419_264), ("zen-eco", 4_644_864)])
def test_factors_of_one_bit_take_the_designed_bytes(alias: str, designed: int) -> None:
    assert lowrank_bytes(GEOMETRIES[alias], codec="sign") == designed


def test_a_sparse_delta_has_no_size_before_it_is_made() -> None:
    with pytest.raises(ValueError, match="expected sign, ternary or int, got 'sparse'"):
        dense_bytes(GEOMETRIES["zen-pico"], coding=Dense("sparse"))


def test_an_untied_head_counts_beside_the_embedding() -> None:
    sizes = [dense_bytes(Geometry(8, 1, 1, 1, 8, 8, 5, tied=tied)) for tied in (True, False)]
    assert sizes[1] - sizes[0] == 5 * 1 + 5 * 4  # 5 rows of 8 bits, and 5 float32 scales


def test_a_matrix_scale_saves_all_but_one_scale() -> None:
    geometry = Geometry(8, 1, 1, 1, 8, 8, 5, tied=True)
    saved = dense_bytes(geometry) - dense_bytes(geometry, coding=Dense(scale="matrix"))
    assert saved == (7 * (8 - 1) + (5 - 1)) * 4  # seven layers of 8 rows, an embedding of 5
