"""What a held-out figure of few rows is worth."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zoo.gym.train.progress import Progress
from zoo.gym.train.result.finish import few_rows


def note(rows: int, decides: str, best: float | None) -> str | None:
    method = SimpleNamespace(held_out=[None] * rows, decides=decides)
    return few_rows(cast("Any", method), Progress(best_score=best))


def test_an_accuracy_of_few_pairs_has_its_interval() -> None:
    assert note(5, "accuracy", 0.8) == "held-out accuracy: 4 of 5 pairs, 95 % interval 38% to 96%"


def test_a_loss_of_few_rows_names_them() -> None:
    assert note(1, "loss", 0.3) == "the held-out loss is that of 1 row alone"


@pytest.mark.parametrize(("rows", "best"), [(20, 0.8), (0, None), (5, None)])
def test_many_rows_or_none_have_no_note(rows: int, best: float | None) -> None:
    assert note(rows, "accuracy", best) is None
