"""Startup time of the app, and its cost while a run is active, in a terminal of 120 by 36.

The pseudo-terminal supports synchronised output, so that each redraw can be counted. Everything is
measured twice: on the machine as it is, and while zen-nano at its full size, with random weights,
is training in steps of 256 tokens.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from bench.measure import Case
from bench.zen_nano import write_model
from zoo.models.registry import registry

REPEATS = 5
WATCH_S = 10.0
KEYS = 60
COLUMNS, LINES = 120, 36

IMPORTS = "import textual.app, textual.widgets"
FIRST_FRAME = b"machine"  # of `This machine`, the last title of the first screen
ASKS_SYNC, HAS_SYNC, DRAWING = b"\x1b[?2026$p", b"\x1b[?2026;2$y", b"\x1b[?2026h"

WRITER = """
import time
from tests.gym.tui import fakes
run = fakes.new_run(100_000)
fakes.train(run, 1, 200, 100_000)
print("ready", flush=True)
for step in range(201, 100_000):
    fakes.train(run, step, step, 100_000)
    time.sleep(0.1)
"""
"""A run that emits ten steps per second, for the app to follow."""

BARE = """
import sys
from textual.app import App
from textual.widgets import DataTable, Footer, Static
from textual_plotext import PlotextPlot
class Bare(App):
    BINDINGS = [("n", "x", "New run"), ("q", "quit", "Quit")]
    def compose(self):
        yield Static("this machine")
        yield DataTable(cursor_type="row")
        yield PlotextPlot()
        yield Footer()
    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns("run", "state", "step", "loss", "model", "method", "updated")
        for i in range(12):
            row = "done", "150 of 150", "2.449", "zen-pico", "sft", "06:39"
            table.add_row(f"r{i:04}", *row)
    def on_data_table_row_highlighted(self):
        chart = self.query_one(PlotextPlot)
        chart.plt.clear_figure()
        steps = list(range(1, 151))
        chart.plt.plot(steps, [3 / step for step in steps], marker="braille")
        chart.refresh()
Bare().run()
"""
"""An app of the widgets of the list of runs, and nothing else."""

RUNS = """
from tests.gym.tui import fakes
for _ in range(12):
    fakes.end(fakes.trained(150), "done")
"""

TRAINER = """
import sys
from pathlib import Path
import torch
from bench.step import ours, parsed
torch.set_num_threads(1)
step = ours(Path(sys.argv[1]), parsed(["ours", sys.argv[1], "--tokens", "256"]))
step()
print("training", flush=True)
while True:
    step()
"""


class Pseudo:
    """A process on a pseudo-terminal, and its output."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self.written = b""

    def read(self, until: bytes | None, limit_s: float) -> None:
        """Reads output until `until` appears, or for `limit_s` seconds."""
        deadline = time.perf_counter() + limit_s
        while (left := deadline - time.perf_counter()) > 0:
            if not select.select([self.ours], [], [], left)[0]:
                continue
            part = os.read(self.ours, 1 << 16)
            self.written += part
            if ASKS_SYNC in part:
                os.write(self.ours, HAS_SYNC)
            if until is not None and until in self.written:
                return

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


@contextmanager
def opened(command: list[str], home: Path) -> Iterator[Pseudo]:
    """Runs a command on a pseudo-terminal, with a private home."""
    env = os.environ | {"ZOO_GYM_HOME": str(home), "HF_HUB_OFFLINE": "1", "TERM": "xterm-256color"}
    terminal = Pseudo(command, {k: v for k, v in env.items() if k not in {"COLUMNS", "LINES"}})
    try:
        yield terminal
    finally:
        terminal.close()


def first_frame_s(home: Path) -> float:
    """Returns the seconds from the start to the first complete screen."""
    started = time.perf_counter()
    with opened([sys.executable, "-m", "zoo.gym"], home) as terminal:
        terminal.read(FIRST_FRAME, 30)
        assert FIRST_FRAME in terminal.written
        return time.perf_counter() - started


def imports_s() -> float:
    """Returns the seconds that importing textual takes, including the start of the interpreter."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.perf_counter() - started


def watched(home: Path, keys: bytes) -> tuple[float, float, float]:
    """Returns the share of a core, redraws per second and kB per second after some keys."""
    with opened([sys.executable, "-m", "zoo.gym"], home) as terminal:
        terminal.read(FIRST_FRAME, 30)
        terminal.read(None, 2)
        for key in keys:
            os.write(terminal.ours, bytes([key]))
            terminal.read(None, 2)
        process = psutil.Process(terminal.process.pid)
        before, written = process.cpu_times(), len(terminal.written)
        terminal.read(None, WATCH_S)
        after, drawn = process.cpu_times(), terminal.written[written:]
    cpu_s = after.user + after.system - before.user - before.system
    return cpu_s / WATCH_S, drawn.count(DRAWING) / WATCH_S, len(drawn) / WATCH_S / 1000


def key_s(home: Path, command: list[str], keys: bytes) -> list[float]:
    """Returns the seconds from each of some keys to the drawing that it causes, in order."""
    times: list[float] = []
    with opened(command, home) as terminal:
        terminal.read(FIRST_FRAME, 30)
        terminal.read(None, 3)
        for key in keys:
            os.write(terminal.ours, bytes([key]))
            terminal.read(None, 2)
        for press in range(KEYS):
            terminal.written = b""
            started = time.perf_counter()
            os.write(terminal.ours, (b"\x1b[B", b"\x1b[A")[press % 2])
            terminal.read(DRAWING, 5)
            assert DRAWING in terminal.written, "the key drew nothing"
            times.append(time.perf_counter() - started)
            terminal.read(None, 0.3)  # what it still draws
    return sorted(times)


@contextmanager
def training(folder: Path) -> Iterator[None]:
    """Trains zen-nano during the measurement, from its first step on."""
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    model = write_model(folder, entry, tokenizer=None, seed=0)
    argv = [sys.executable, "-c", TRAINER, str(model)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    trainer = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
    try:
        assert trainer.stdout is not None
        assert trainer.stdout.readline(), "the training did not start"
        yield
        assert trainer.poll() is None, "the training ended before the figures were taken"
    finally:
        trainer.kill()
        trainer.communicate()


def run() -> Iterator[Case]:
    """Yields the cases, on the machine as it is and during a training."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _cases(folder / "alone", "")
        with training(folder / "hub"):
            yield from _cases(folder / "beside", ", beside zen-nano")


def _cases(home: Path, told: str) -> Iterator[Case]:
    """Yields the figures of one home; app and import alternate."""
    pairs = [(first_frame_s(home), imports_s()) for _ in range(REPEATS)]
    ratio = median(mine / theirs for mine, theirs in pairs)
    mine_s = median(mine for mine, _ in pairs)
    yield Case(f"first frame{told}", mine_s, "s", "importing textual", ratio, "<= 2.0")
    idle, _, sent = watched(home, b"")
    yield Case(f"idle{told}", idle, "of a core", "one core", idle, "<= 0.01")
    yield Case(f"idle: written{told}", sent, "kB/s", "nothing", sent, "<= 1")
    env = os.environ | {"ZOO_GYM_HOME": str(home)}
    subprocess.run([sys.executable, "-c", RUNS], env=env, check=True)
    ours = key_s(home, [sys.executable, "-m", "zoo.gym"], b"4")
    bare = key_s(home, [sys.executable, "-c", BARE], b"")
    for name, at in ((f"key to paint{told}", KEYS // 2), (f"slowest in 20{told}", -KEYS // 20)):
        yield Case(name, ours[at], "s", "the same widgets", ours[at] / bare[at], "<= 2.0")
    writer = subprocess.Popen([sys.executable, "-c", WRITER], env=env, stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        share, drawings, sent = watched(home, b"4\r")
    finally:
        writer.kill()
        writer.communicate()
    against = "10 steps a second"
    yield Case(f"following{told}", drawings, "drawings/s", against, drawings, "<= 2.0")
    yield Case(f"following: written{told}", sent, "kB/s", against, sent, "<= 60")
    yield Case(f"following: cost{told}", share, "of a core", "one core", share, "<= 0.15")
