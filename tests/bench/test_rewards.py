"""GRPO with its defaults teaches zen-pico sums that it was not shown; wrong rewards do not."""

from pathlib import Path

import numpy as np
import pytest

from bench.rewards import cases, lower_end, measure


@pytest.mark.slow
def test_the_defaults_of_grpo_teach_addition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    found = list(cases(measure(tmp_path)))
    assert [case.name for case in found if not case.keeps_its_bar()] == []


def test_the_lower_end_is_below_the_gain_and_zero_without_one() -> None:
    base = np.arange(40) % 2 == 0
    better = np.stack([base | (np.arange(40) % 4 == 1)] * 2)  # 25 points more
    assert 5 < lower_end(base, better) < 25
    assert lower_end(base, np.stack([base, base])) == 0
