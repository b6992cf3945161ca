"""Screens as they were when somebody looked at them; `make golden` draws them anew."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.gym.tui import answers, fakes
from tests.gym.tui.conftest import shows
from tests.gym.tui.fakes import FOUND, PLANNED
from tests.gym.tui.views import keys, pasted, run_of, sampled_run, tab, talked
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.home import screen as home
from zoo.gym.tui.machine import Machine
from zoo.gym.tui.models import text as models_text
from zoo.gym.tui.start import screen as start

GOLDEN = Path(__file__).parent / "golden"
DRAWN_BY = GOLDEN / "drawn-by.txt"

View = Callable[[GymApp, Pilot[None]], Awaitable[None]]


async def empty_home(app: GymApp, pilot: Pilot[None]) -> None:
    await shows(pilot, "Train on my examples", "offline", "81 %")


async def list_of_runs(app: GymApp, pilot: Pilot[None]) -> None:
    fakes.end(fakes.trained(150), "done")
    fakes.trained(40)
    await pilot.press("4")
    await shows(pilot, "running 40 of 150")


async def working_run(app: GymApp, pilot: Pilot[None]) -> None:
    run = fakes.trained(112)
    await app.action_watch(run.id)
    await shows(pilot, "Training, step 112", "tokens/s 2,134")


async def done_run(app: GymApp, pilot: Pilot[None]) -> None:
    run = fakes.trained(150)
    fakes.end(run, "done")
    await app.action_watch(run.id)
    await shows(pilot, "Done, step 150", "Chat with it", "100%")


async def lessons_run(app: GymApp, pilot: Pilot[None]) -> None:
    run = fakes.lessons_run(done=True)
    await app.action_watch(run.id)
    await shows(pilot, "balls@1 is proven", "2 lessons kept", "tokens 37,032")


async def new_training(app: GymApp, pilot: Pilot[None]) -> None:
    app.action_start("/data/chats.jsonl")
    await shows(pilot, "200 examples", "my.jsonl:57: no answer", "90 steps of 16 rows")
    app.screen.query_one("#start").focus()


async def models_that_fit(app: GymApp, pilot: Pilot[None]) -> None:
    await keys("models", "j")(app, pilot)
    await shows(pilot, "1.5 GB", "of memory free")


async def examples(app: GymApp, pilot: Pilot[None]) -> None:
    await pasted("data", answers.chats_file(Path.cwd()))(app, pilot)
    await shows(pilot, "Row 1 of 200, chat", "OpenAI messages")
    app.screen.query_one("#path", Input).value = "/data/chats.jsonl"


async def two_answers(app: GymApp, pilot: Pilot[None]) -> None:
    answers.tuned_run()
    await talked(app, pilot)
    await shows(pilot, "outside", "tok/s")


async def a_round(app: GymApp, pilot: Pilot[None]) -> None:
    await tab(2)(app, pilot)
    await shows(pilot, "spring", "about weights", "a copy of b64f-9a7f")


async def recommended(app: GymApp, pilot: Pilot[None]) -> None:
    answers.chats_file(Path.cwd())
    app.action_recommend("chats.jsonl")
    await shows(pilot, "makes the better answer", "Open as a new run")


async def sampled_answers(app: GymApp, pilot: Pilot[None]) -> None:
    await run_of(sampled_run(), "a")(app, pilot)
    await shows(pilot, "6 answers by advantage", "format 1")


VIEWS: dict[str, tuple[View, tuple[int, int]]] = {
    "home-empty": (empty_home, (80, 24)),
    "runs": (list_of_runs, (80, 24)),
    "run-working": (working_run, (120, 36)),
    "run-done": (done_run, (80, 24)),
    "run-lessons": (lessons_run, (80, 24)),
    "run-lessons-wide": (lessons_run, (120, 36)),
    "start": (new_training, (100, 30)),
    "models": (models_that_fit, (100, 30)),
    "data": (examples, (120, 36)),
    "chat": (two_answers, (120, 36)),
    "share-rounds": (a_round, (100, 30)),
    "recommend": (recommended, (100, 30)),
    "groups": (sampled_answers, (80, 24)),
}


@pytest.fixture(autouse=True)
def _the_same_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fixes all that depends on the machine and the hour."""

    async def found(words: list[str], *, finish: bool = False) -> dict[str, object]:
        return PLANNED if "--print-config" in words else FOUND

    answers.answer_as(monkeypatch, "filled")
    monkeypatch.chdir(tmp_path)
    kept = Content("hub cache  /cache/hub\nimported   /data/models")
    monkeypatch.setattr(models_text, "places_text", lambda: kept)
    machine = Machine("A machine", 4, 8 << 30, 5 << 30, 500 << 30, 40 << 30, charge=81.0)
    monkeypatch.setattr(home, "this_machine", lambda: machine)
    monkeypatch.setattr(time, "strftime", at_the_hour)
    monkeypatch.setattr(start, "ask_command", found)


def at_the_hour(form: str, *_: object) -> str:
    """Writes one time as any form asks."""
    return form.replace("%d %b", "21 Nov").replace("%H:%M", "14:49")


def drawn(view: View, size: tuple[int, int]) -> str:
    """Returns a screen as SVG; what moves by itself stands still."""

    async def body() -> str:
        app = GymApp()
        app.redraw_s, app.animation_level = 0.05, "none"
        async with app.run_test(size=size) as pilot:
            await view(app, pilot)
            for area in app.screen.query(TextArea):
                area.cursor_blink = False
            await pilot.pause(0.3)
            return app.export_screenshot()

    return re.sub(r"@font-face \{[^}]*\}\s*", "", asyncio.run(body()))


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_a_screen_is_as_it_was_looked_at(name: str, pytestconfig: pytest.Config) -> None:
    version = f"textual {metadata.version('textual')}, plotext {metadata.version('plotext')}\n"
    file, svg = GOLDEN / f"{name}.svg", drawn(*VIEWS[name])
    if pytestconfig.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        DRAWN_BY.write_text(version)
        file.write_text(svg + "\n")
    elif DRAWN_BY.read_text() != version:
        pytest.skip(f"drawn by {DRAWN_BY.read_text().strip()}, here is {version.strip()}")
    assert file.read_text() == svg + "\n"
