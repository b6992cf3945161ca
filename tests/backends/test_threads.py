"""How many cores a run takes: those that other programs leave, one for a small model."""

import pytest

from zoo.backends.machine import threads


@pytest.mark.parametrize(("percent", "expected"), [(0, 4), (10, 4), (30, 3), (60, 2), (100, 1)])
def test_cores_that_are_busy_are_left_to_their_programs(
    monkeypatch: pytest.MonkeyPatch, percent: float, expected: int
) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: percent)
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    assert threads.choose_threads(threads.SINGLE_THREAD_PARAMETERS) == expected


def test_a_small_model_takes_one_core_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.cpu_percent", None)  # not called
    assert threads.choose_threads(threads.SINGLE_THREAD_PARAMETERS - 1) == 1
