"""Kills without warning, of the app and of the worker in turn, in a real terminal."""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gym.jobs.left_over import kill_workers
from tests.gym.tui.test_terminal import Terminal, start, wait
from zoo.gym.jobs import Run, read_status
from zoo.gym.jobs.events import tail_events
from zoo.gym.jobs.identity import read_identity
from zoo.gym.processes import is_alive

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

STEPS = 30_000
"""More than are trained while the kills go on; the last turn stops the run."""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.kill()
    kill_workers()


def kill_app(terminal: Terminal, run: Run) -> None:
    """Kills the app; the run goes on, and a new app shows it."""
    os.kill(int(terminal.tmux("list-panes", "-F", "#{pane_pid}")), signal.SIGKILL)
    terminal.kill()
    at = read_status(run).step
    wait(lambda: read_status(run).step > at)
    terminal.open_app()
    terminal.shows(f"Watch {run.id}", "zen-pico, running")
    terminal.keys("Enter")
    terminal.shows("Training, step")


def kill_worker(terminal: Terminal, run: Run) -> None:
    """Kills the worker; the app calls the run interrupted and resumes it from a checkpoint."""
    worker, reached = read_identity(run.identity_file), read_status(run).step
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    terminal.shows("Interrupted at step", "Resume")
    assert not is_alive(worker)
    terminal.keys("Space")
    terminal.shows("Training, step")
    wait(lambda: read_status(run).step > reached)


@pytest.mark.parametrize(
    "kills",
    [pytest.param(5, marks=pytest.mark.slow), pytest.param(50, marks=pytest.mark.nightly)],
)
def test_kills_of_app_and_worker_lose_nothing_and_are_shown_as_they_are(
    terminal: Terminal, kills: int
) -> None:
    moments = random.Random(0)
    run = start(terminal, f"max_steps={STEPS} save_steps=20")
    terminal.shows("Training, step")
    wait(lambda: read_status(run).step > 20)
    for turn in range(kills):
        time.sleep(moments.random())
        (kill_worker if turn % 2 else kill_app)(terminal, run)
    terminal.keys("x")
    terminal.shows(f"Stop run {run.id}?")
    terminal.keys("y")
    terminal.shows("Stopped at step")
    steps = [event["step"] for event in tail_events(run.events.path)[0] if event["kind"] == "step"]
    assert set(steps) == set(range(1, steps[-1] + 1)), "a step is missing"
