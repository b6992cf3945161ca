"""Chat with a real server: it answers, and ends with the app, killed or not."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from tests.gym.tui.test_chat import say, wait
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.chat.screen import ChatScreen
from zoo.gym.tui.chat.server import ChatServer


def adapter_run(seed: int) -> Run:
    """A done run whose adapter speaks its own nonsense, or with seed 0 changes nothing."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    from tests.gym.serving.conftest import write_variant

    run = fakes.new_run()
    fakes.train(run, 1, 3, steps=3)
    fakes.end(run, "done")
    write_variant(run.result, seed)
    if seed == 0:
        file = run.result / "adapter_model.safetensors"
        zeros = {name: np.zeros_like(value) for name, value in load_file(file).items()}
        save_file(zeros, file, metadata={"format": "pt"})
    return run


def is_gone(pid: int) -> bool:
    import psutil

    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_real_server_answers_for_base_and_run_and_ends_with_the_app(drive: Drive) -> None:
    run, zeros = adapter_run(3), adapter_run(0)
    pids: list[int] = []

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        screen.select([run.id, zeros.id])
        await until(pilot, lambda: len(screen.columns) == 3)
        screen.query_one("#max_tokens", Input).value = "12"
        first, second = [await say(pilot, screen, "ab cd") for _ in range(2)]
        texts = [[answer.text for answer in turn.answers.values()] for turn in (first, second)]
        assert texts[0] == texts[1]
        by_source = {source.name: answer for source, answer in first.answers.items()}
        assert all(answer.is_complete for answer in by_source.values()), by_source
        assert by_source[zeros.id].text == by_source["zen-pico"].text != by_source[run.id].text
        effects = screen.talk.effects(screen.columns)
        sentence = "equals zen-pico on 2 of 2 prompts: this adapter has no effect on them"
        assert effects == [f"run {zeros.id} {sentence}"]
        await shows(pilot, "no effect", "Ready at 127.0.0.1:")
        assert screen.server is not None
        assert screen.server.pid is not None
        pids.append(screen.server.pid)

    drive(visit, size=(160, 45))
    assert is_gone(pids[0])


KILLED = """
import os, signal, sys, time
from zoo.gym.tui.chat.server import ChatServer
server = ChatServer("zen-pico", {})
server.start()
while server.state == "loading":
    time.sleep(0.05)
print(server.pid, server.state, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
def test_a_real_server_ends_when_the_app_is_killed(home: Path) -> None:
    words = [sys.executable, "-c", KILLED]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, state = done.stdout.split()
    assert state == "ready"
    wait(lambda: is_gone(int(pid)), limit_s=30)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    server = ChatServer("zen-pico", {"x": str(home / "absent")})
    server.start()
    wait(lambda: server.state != "loading", limit_s=60)
    assert server.state == "failed"
    assert "absent" in str(server.error)
    server.end()
