"""The app in a real terminal: tmux, 100 by 30, by keys only."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gym.jobs.left_over import kill_workers
from tests.gym.tui import fakes
from zoo.gym.jobs import Run, open_run, read_status
from zoo.gym.jobs.identity import read_identity
from zoo.gym.processes import is_alive

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

LIMIT_S = 120.0


class Terminal:
    """A tmux server of its own with the app in it."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "tmux"
        self.folder = folder

    def tmux(self, *words: str) -> str:
        """Runs a tmux command and returns what it prints."""
        argv = ["tmux", "-f", "/dev/null", "-S", str(self.socket), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def open_app(self) -> None:
        """Starts a server whose only window is the app."""
        names = ["ZOO_GYM_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "OMP_NUM_THREADS", "PYTHONPATH"]
        env = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
        command = shlex.join(
            ["env", "-u", "COLUMNS", "-u", "LINES", *env, sys.executable, "-m", "zoo.gym"]
        )
        self.tmux("new-session", "-d", "-x", "100", "-y", "30", "-c", str(self.folder), command)

    def keys(self, *keys: str) -> None:
        """Presses keys, by tmux's names for them."""
        self.tmux("send-keys", *keys)

    def text(self) -> str:
        """Returns what stands on the screen."""
        return self.tmux("capture-pane", "-p")

    def shows(self, *texts: str, absent: str = "\0") -> str:
        """Waits until every text stands on the screen, and returns the screen."""
        shown = ""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            shown = self.text()
            if absent not in shown and all(text in shown for text in texts):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{texts} did not come:\n{shown}")

    def kill(self) -> None:
        """Ends the server and everything that listens to its hang-up."""
        subprocess.run(
            ["tmux", "-S", str(self.socket), "kill-server"], check=False, capture_output=True
        )


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.kill()
    kill_workers()


def start(terminal: Terminal, settings: str) -> Run:
    """Goes from Home to a run that has begun, as a user with a keyboard does."""
    path = fakes.rows_file(terminal.folder)
    terminal.open_app()
    terminal.shows("None yet", "Train on my examples")
    terminal.keys("Enter")
    terminal.shows("1 Examples")
    terminal.tmux("send-keys", "-l", str(path))
    terminal.keys("Enter")
    terminal.shows("40 examples; detected format:", "q Quit")
    terminal.keys("BTab")
    terminal.shows(absent="q Quit")  # a line of input has the focus: q is a letter again
    terminal.tmux("send-keys", "-l", settings)
    terminal.shows(settings)
    terminal.keys("Enter")
    terminal.shows("r0001", "held-out")
    return open_run("r0001")


def wait(condition: Callable[[], bool]) -> None:
    """Waits for something outside the terminal."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.1)


def has_chart(screen: str) -> bool:
    """Says whether both curves are drawn: braille dots and crosses."""
    rows = [line for line in screen.splitlines() if "│" in line]
    dots = sum("\u2800" < sign <= "\u28ff" for row in rows for sign in row)
    return dots > 10 and sum(row.count("x") for row in rows) > 2


def test_from_an_empty_home_to_a_finished_run_and_its_chart(terminal: Terminal) -> None:
    run = start(terminal, "max_steps=30")
    screen = terminal.shows("Done, step 30 of 30", "100%", f"zoo-gym chat --run {run.id}")
    assert has_chart(screen)
    assert json.loads((run.result / "adapter_config.json").read_text())["r"] == 16
    terminal.keys("l")
    terminal.shows("The worker has printed nothing")
    terminal.keys("Escape")  # alone: with a key at its heels it would be that key with Alt
    terminal.shows("Done, step 30 of 30")
    terminal.keys("1")
    terminal.shows(f"Open {run.id}", "zen-pico, done at step 30 of 30", "All runs (1)")
    terminal.keys("4")
    terminal.shows("1 run, 0 active")
    terminal.keys("Enter")
    assert has_chart(terminal.shows("Done, step 30 of 30"))


def test_a_run_outlives_its_terminal_and_the_app_shows_all_of_it(terminal: Terminal) -> None:
    run = start(terminal, "max_steps=400")
    terminal.shows("Training, step")
    terminal.kill()
    at = read_status(run).step
    wait(lambda: read_status(run).step > at + 20)
    terminal.open_app()
    terminal.shows(f"Watch {run.id}", "zen-pico, running")
    terminal.keys("Enter")
    terminal.shows("Training, step")
    wait(lambda: has_chart(terminal.text()))  # three evaluations may still be to come
    screen = terminal.shows("Done, step 400 of 400")
    assert has_chart(screen)
    assert re.search(r"\s0\s+100\s+200\s+300\s+400\s", screen)


def test_a_paused_run_is_held_and_stopped_by_keys(terminal: Terminal) -> None:
    run = start(terminal, "max_steps=2000")
    terminal.shows("Training, step")
    terminal.keys("Space")
    terminal.shows("Paused at step")
    terminal.keys("x")
    terminal.shows("Stop run r0001?")
    terminal.keys("y")
    terminal.shows("Stopped at step", "Resume")
    wait(lambda: not is_alive(read_identity(run.identity_file)))
    terminal.keys("Space")
    terminal.shows("Training, step")
    terminal.keys("q")
    assert read_status(run).state == "running"
