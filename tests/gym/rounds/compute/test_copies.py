"""What counts as a copy."""

import numpy as np
from numpy.typing import NDArray

from zoo.core import float_gram
from zoo.gym.rounds.compute.collect import copies
from zoo.gym.rounds.rules.aggregate import undersized


def gram_of(rows: list[list[float]]) -> NDArray[np.uint64]:
    return float_gram(np.array(rows, np.float32))


def test_a_copy_is_found_whatever_its_length_and_its_place() -> None:
    rows = [[1.0, 2.0, 3.0], [-1.0, 5.0, 0.5], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0]]
    assert copies(gram_of(rows), [0, 1, 2, 3], "float") == {2: 0}
    assert copies(gram_of(rows), [2, 1, 0, 3], "float") == {0: 2}


def test_the_opposite_is_no_copy() -> None:
    rows = [[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]
    assert copies(gram_of(rows), [0, 1], "float") == {}


def test_signs_are_a_copy_from_a_cosine_of_nine_tenths() -> None:
    same, other = [1.0] * 100, [-1.0] * 5 + [1.0] * 95
    less = [-1.0] * 6 + [1.0] * 94
    assert copies(gram_of([same, other]), [0, 1], "signs") == {1: 0}
    assert copies(gram_of([same, less]), [0, 1], "signs") == {}
    assert copies(gram_of([same, other]), [0, 1], "float") == {}


def test_tiny_change_is_refused_and_has_no_copies() -> None:
    gram = gram_of([[1e-5, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    short = undersized(gram)
    assert short == [0]
    assert copies(gram, [0, 1, 2, 3], "float") == {2: 0}
    assert copies(gram, [0, 1, 2, 3], "float", short) == {}
    assert undersized(gram_of([[1e-3, 0.0], [0.0, 1.0], [1.0, 0.0]])) == []
