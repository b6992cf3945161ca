"""The benchmark of large rounds runs to its end, on a small one."""

import pytest

from bench import round_growth


@pytest.mark.slow
def test_a_round_is_verified_and_each_phase_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_growth, "ROWS", 40)
    monkeypatch.setattr(round_growth, "COLUMNS", 80)
    monkeypatch.setenv("ZOO_GYM_HOME", "")  # the benchmark sets it
    names = [case.name.rpartition(": ")[2] for case in round_growth.run(5)]
    assert names[0] == "writing the files"
    assert {"aggregate", "verify", "memory"} <= set(names)
