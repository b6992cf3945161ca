"""How many cores a run takes: those that other programs leave, one for a small model."""

import os
import subprocess
import sys

import pytest

from zoo.backends.machine import threads


@pytest.mark.parametrize(("percent", "expected"), [(0, 4), (10, 4), (30, 3), (60, 2), (100, 1)])
def test_cores_that_are_busy_are_left_to_their_programs(
    monkeypatch: pytest.MonkeyPatch, percent: float, expected: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: percent)
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    assert threads.choose_threads(threads.SINGLE_THREAD_PARAMETERS) == expected


@pytest.mark.parametrize(("given", "expected"), [("1", 1), ("3,2", 3), ("99", 4)])
def test_the_number_of_threads_can_be_given(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr("psutil.cpu_percent", None)  # not called
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    assert threads.choose_threads(threads.SINGLE_THREAD_PARAMETERS) == expected


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_that_wait_do_not_spin_unless_that_is_given(
    given: str | None, expected: str
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    program = "import os, zoo.backends; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | ({} if given is None else {"OMP_WAIT_POLICY": given}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected


def test_a_small_model_takes_one_core_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.cpu_percent", None)  # not called
    assert threads.choose_threads(threads.SINGLE_THREAD_PARAMETERS - 1) == 1
