"""The first path of a new user, in a real terminal: from an empty home to a round and lessons.

Each key that is pressed stands on the screen at that moment, and no process of the app connects to
anything but this machine. The screens are kept as text: `screens` in the folder of the test.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chat_server import chat_server
from tests.gym.experience.causal import World
from tests.gym.experience.conftest import write_tasks
from tests.gym.jobs.left_over import kill_workers
from tests.gym.tui import fakes
from tests.gym.tui.test_share_real import other_adapter, zoo_gym
from tests.gym.tui.test_terminal import Terminal, has_chart
from zoo.gym.jobs import open_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

GUARD = '''
"""Refuses what would leave this machine, and writes down who tried it, and who was watched."""

import os
import sys

NEAR = {"127.0.0.1", "::1", "localhost", "", None}


def watch(event, args):
    if event in {"socket.connect", "socket.sendto"}:
        host = args[1][0] if isinstance(args[1], tuple) else ""
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = args[0].decode() if isinstance(args[0], bytes) else args[0]
    else:
        return
    if host not in NEAR:
        write("tried", f"{event} {host}")
        raise PermissionError(f"{event}: {host!r} is not this machine")


def write(name, text):
    with open(os.path.join(os.path.dirname(__file__), name), "a") as file:
        file.write(f"{text} {sys.orig_argv}\\n")


sys.addaudithook(watch)
write("watched", "")
'''

ALONE_S = 1.0
"""Escape needs to be alone: with a key at its heels it would be that key with Alt.

A field has the focus a moment after Tab.
"""


class Traveller(Terminal):
    """Somebody who presses only what the screen names, and types."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.screens = folder / "screens"
        self.screens.mkdir()

    def press(self, shown: str) -> None:
        """Presses the key that a text of the screen begins with, such as `c Compress`."""
        self.shows(shown)
        key = shown.split(maxsplit=1)[0].strip(":")
        self.keys({"Esc": "Escape", "^s": "C-s", "ctrl+s": "C-s"}.get(key, key))
        if key == "Esc":
            time.sleep(ALONE_S)

    def type(self, text: str, *then: str) -> None:
        """Types into a field once it has the focus (q is a letter then), and presses keys."""
        self.shows("Esc ", absent="q Quit")  # the bottom line of a field
        self.tmux("send-keys", "-l", text)
        if then:
            self.keys(*then)

    def keep(self, name: str) -> None:
        """Keeps the screen, with its colours."""
        shown = self.tmux("capture-pane", "-e", "-p")
        (self.screens / f"{name}.txt").write_text(shown, encoding="utf-8")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traveller]:
    guard = tmp_path / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD)
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(guard), *([before] if before else [])]))
    terminal = Traveller(tmp_path)
    yield terminal
    terminal.kill()
    kill_workers()


def look_at_data(terminal: Traveller) -> None:
    """Opens a file of examples from Home."""
    path = fakes.rows_file(terminal.folder)
    terminal.open_app()
    terminal.shows("None yet", "Train on my examples")
    terminal.keep("1-home")
    terminal.press("3 Data")
    terminal.shows('{"prompt": "Capital of Peru?", "completion": "Lima."}')
    terminal.press("p Path")
    terminal.type(str(path), "Enter")
    terminal.shows("prompt/completion", "17 to 32 ████", " 40 │", "Row 1 of 40")
    terminal.shows("spell bobi", "ibob")
    terminal.keep("2-data")


def train(terminal: Traveller) -> None:
    """Starts a training from the file, and watches it to its end."""
    terminal.press("t Train")
    terminal.shows("40 examples; detected format", "needs about", "my chats.jsonl")
    terminal.keys("BTab")  # from the button, which has the focus, to the settings
    terminal.type("max_steps=20")
    terminal.shows("max_steps=20", "20 steps of")
    terminal.keep("3-form")
    terminal.press("^s Start")
    terminal.shows("> r0001", "held-out")
    assert has_chart(terminal.shows("Done, step 20 of 20", "100%"))
    terminal.keep("4-done")


def compare(terminal: Traveller) -> None:
    """Asks the run and its base the same."""
    terminal.press("c: beside its base")
    terminal.shows("base zen-pico", "Prompt to all columns")
    terminal.press("w Write")
    terminal.type("spell bobi: ", "Enter")
    shown = terminal.shows("ready", "> spell bobi:", "first ", "Esc Leave", absent="waiting")
    assert shown.count("> spell bobi:") == 2
    assert shown.count(" s ─╯") == 2  # each column says when its first token came
    terminal.keep("5-chat")
    terminal.press("Esc Leave the prompt")
    terminal.shows("q Quit")


def compress(terminal: Traveller) -> None:
    """Makes a small file of the run."""
    terminal.press("6 Share")
    terminal.shows("run, zen-pico", "c compresses it")
    terminal.press("c Compress")
    terminal.press("ctrl+s measures")
    terminal.shows("* --bits", "gain kept", "Written with")
    terminal.keep("6-compress")
    terminal.press("Esc Back")
    terminal.shows("r0001  small file")


def export(terminal: Traveller) -> None:
    """Writes the run for other programs."""
    terminal.press("4 Runs")
    terminal.shows("1 run, 0 active")
    terminal.press("Enter Open")
    terminal.shows("Done, step 20 of 20")
    terminal.press("e: export")
    terminal.shows("For which program?", "Enter writes it")
    terminal.keys("Down", "Down", "Down", "Down")
    terminal.shows("--quantization f16", "about 1.6 MB", "Enter writes it")
    terminal.keep("7-export")
    terminal.press("Enter Select")
    terminal.shows("Done. Esc goes back.", "checked by llama.cpp")
    assert (terminal.folder / "r0001-f16.gguf").stat().st_size > 10**6
    terminal.press("Esc Back")
    terminal.press("Esc Back")


def send_and_verify(terminal: Traveller) -> None:
    """Creates a round, contributes, waits for two others, and computes the result again."""
    place = terminal.folder / "round"
    terminal.press("6 Share")
    terminal.shows("r0001  small file", "→ Tab")
    terminal.keys("Right", "Right")
    terminal.shows("three people who trained on their own mails")
    terminal.press("c to create a round")
    terminal.shows("zen-pico", "New folder")
    terminal.type("summer")
    terminal.shows("  summer  ")
    terminal.keys("Tab")  # the base is that of the run already
    time.sleep(ALONE_S)
    terminal.keys("Tab")
    time.sleep(ALONE_S)
    terminal.type(str(place))
    terminal.press("^s Run")
    terminal.shows("The round is open.")
    terminal.press("Esc Back")
    others = contributed(terminal.folder, place)
    terminal.press("s Contribute")
    terminal.shows("No privacy budget", "Nothing has left this machine.")
    terminal.press("^s Run")
    terminal.shows("Prepared:", "Send ...")
    terminal.keep("8-contribute")
    terminal.press("^s Run")
    terminal.shows("Nothing happens before you type send")
    terminal.tmux("send-keys", "-l", "send")
    terminal.shows("Enter: send.")
    terminal.keys("Enter")
    terminal.shows("Sent.", "Receipt:")
    terminal.press("Esc Back")
    do(terminal, "x Close", "y  Yes, end it", "added to the log: 3", "Done.")
    for other in others:
        zoo_gym(other, "round", "reveal", str(place), "--send")
    do(terminal, "v Reveal", "y  Yes, send", "revealed in", "Done.")
    do(terminal, "x Close", "y  Yes, end it", "added to the log: 3", "Done.")
    do(terminal, "a Result", "", "Published: 3 contributions count, 0 were refused.")
    do(terminal, "V Verify", "", "Recomputed here: equal")
    terminal.shows("Result", "counts", "0.333")
    terminal.keep("9-round")


def contributed(folder: Path, place: Path) -> list[Path]:
    """Contributes to a round as two other people, and returns their homes."""
    others = [folder / f"home-{name}" for name in ("ben", "cat")]
    for seed, other in enumerate(others):
        adapter = other_adapter(Path(os.environ["ZOO_GYM_HOME"]), folder / f"of-{seed}", seed)
        zoo_gym(other, "round", "contribute", str(adapter), "--round", str(place), "--send")
    return others


def do(terminal: Traveller, key: str, yes: str, *done: str) -> None:
    """Opens the form of a step of a round by its key, runs it, and goes back."""
    terminal.press(key)
    terminal.press("^s Run")
    if yes:
        terminal.press(yes)
    terminal.shows(*done)
    terminal.press("Esc Back")


def learn(terminal: Traveller, model: str) -> None:
    """Learns lessons from a server of this machine, and watches that to its end."""
    tasks = write_tasks(terminal.folder / "sums.jsonl", 60)
    terminal.shows("→ Tab")
    terminal.keys("Right")
    terminal.press("l to learn lessons")
    terminal.shows("Tasks: rows with a prompt and an answer")
    terminal.type(str(tasks))
    terminal.shows("sums.jsonl")
    terminal.keys("Tab")
    time.sleep(ALONE_S)
    terminal.type(model)
    terminal.shows("#world")
    terminal.press("^s Run")
    terminal.shows("Estimated; no call was made.", "all calls stay on this machine", "Start ...")
    terminal.keep("10-estimate")
    terminal.press("^s Run")
    terminal.press("y  Yes, start")
    terminal.shows("Done: sums@1 is proven", "lessons kept:", "100%")
    terminal.keep("11-lessons")
    terminal.press("6: Share")
    terminal.shows("sums", "proven", "Lessons, as the model reads them", "For family-")


def test_from_an_empty_home_to_a_verified_round_and_proven_lessons(terminal: Traveller) -> None:
    world = World()
    look_at_data(terminal)
    train(terminal)
    compare(terminal)
    compress(terminal)
    export(terminal)
    send_and_verify(terminal)
    with chat_server(lambda body, _: world.answer(body["messages"], body.get("seed", 0))) as server:
        learn(terminal, f"{server.url}#world")
    watched = (terminal.folder / "guard" / "watched").read_text()
    for word in ("'zoo.gym']", "'train'", "zoo.gym.jobs.worker", "'serve'", "'delta'", "'export'"):
        assert word in watched
    assert not (terminal.folder / "guard" / "tried").exists()
    assert open_run("r0002").result.exists()
