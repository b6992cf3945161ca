"""Every screen of the app in its states: how to come there, and what stands there then."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.gym.tui import answers, fakes
from tests.gym.tui.answers import World
from tests.gym.tui.conftest import screen_text, shows
from tests.gym.tui.test_groups import line
from zoo.gym.jobs import Run, create_run
from zoo.gym.tui.app import GymApp

Way = Callable[[GymApp, Pilot[None]], Awaitable[None]]
"""Comes to a screen from any other one."""


class View(NamedTuple):
    """A screen in one state.

    Attributes:
        name: what its picture is called.
        way: comes there.
        texts: what stands there once it is drawn.
    """

    name: str
    way: Way
    texts: tuple[str, ...] = ()

    async def show(self, app: GymApp, pilot: Pilot[None]) -> None:
        """Comes there and waits until it is drawn."""
        await self.way(app, pilot)
        await shows(pilot, *self.texts)


def keys(mode: str, *pressed: str) -> Way:
    """Comes to a place and presses keys there."""

    async def way(app: GymApp, pilot: Pilot[None]) -> None:
        await go(app, pilot, mode)
        await press(pilot, *pressed)

    return way


async def go(app: GymApp, pilot: Pilot[None], mode: str) -> None:
    """Comes to a place, out of the field that has the focus there."""
    await app.go(mode)
    await pilot.pause(0.05)
    if isinstance(app.focused, Input | TextArea):
        await pilot.press("escape")
        await pilot.pause(0.05)


async def press(pilot: Pilot[None], *pressed: str) -> None:
    """Presses keys one by one, each after what the one before has opened."""
    for key in pressed:
        await pilot.press(key)
        await pilot.pause(0.1)


def tab(number: int, *pressed: str) -> Way:
    """Comes to a tab of Share and presses keys there."""

    async def way(app: GymApp, pilot: Pilot[None]) -> None:
        await app.go("share")
        await pilot.pause(0.1)
        app.screen.query_one("TabbedContent").active = (  # type: ignore[attr-defined]
            "deltas", "variants", "rounds", "lessons"
        )[number]  # fmt: skip
        await pilot.pause(0.4)
        await press(pilot, *pressed)

    return way


def run_of(run: Run, *pressed: str) -> Way:
    """Opens a run and presses keys there."""

    async def way(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await pilot.pause(0.2)
        await press(pilot, *pressed)

    return way


def pasted(mode: str, path: Path, *pressed: str) -> Way:
    """Drops a file on a place and presses keys there."""

    async def way(app: GymApp, pilot: Pilot[None]) -> None:
        await go(app, pilot, mode)
        app.screen.post_message(Paste(str(path)))
        await pilot.pause(0.3)
        await press(pilot, *pressed)

    return way


def pushed(action: str, *given: Any, pressed: tuple[str, ...] = ()) -> Way:
    """Opens a screen on top of Home by an action of the app, and presses keys there."""

    async def way(app: GymApp, pilot: Pilot[None]) -> None:
        await app.go("home")
        getattr(app, f"action_{action}")(*given)
        await pilot.pause(0.3)
        await press(pilot, *pressed)

    return way


async def talked(app: GymApp, pilot: Pilot[None]) -> None:
    """Asks two models something."""
    await go(app, pilot, "chat")
    await pilot.pause(0.3)
    app.screen.action_write()  # type: ignore[attr-defined]
    if "outside" not in screen_text(app):
        await pilot.press(*"When?", "enter")
    await pilot.pause(0.5)


async def blind(app: GymApp, pilot: Pilot[None]) -> None:
    """Asks two models whose names are hidden."""
    await talked(app, pilot)
    await press(pilot, "escape", "v", "w", "W", "h", "o", "enter")


def sampled_run() -> Run:
    """A run by RL with sampled answers."""
    run = fakes.trained(12)
    told = "The library opens at ten on Saturdays. "
    for step in (1, 2):
        for i, reward in enumerate((1.0, 0.75, 0.5, 0.0, 0.0, -0.25)):
            with run.samples.open("a") as file:
                fields = {
                    "completion": told * (i + 1),
                    "tokens": 9 * (i + 1),
                    "parts": {"format": 1.0},
                }
                file.write(line(step, "When does the library open?", reward, **fields))
    return run


def runs_in_each_state() -> dict[str, Run]:
    """One run in each state, by its name."""
    lasts = {"done": 150, "failed": 31, "interrupted": 80, "paused": 60, "running": 112}
    runs = {name: fakes.new_run() for name in lasts}
    runs["queued"] = create_run(fakes.CONFIG, {})
    for name, last in lasts.items():
        fakes.train(runs[name], 1, last)
    fakes.end(runs["done"], "done", model=str(runs["done"].result), metrics={"best_loss": 0.7})
    why = {"message": "the loss of step 31 is not a number", "hint": "a smaller learning_rate"}
    runs["failed"].events.emit("error", **why)
    fakes.end(runs["failed"], "failed", **why)
    stopped = "stopped at step 80 of 150"
    fakes.end(runs["interrupted"], "interrupted", request="stop", message=stopped)
    runs["paused"].events.emit("state", state="paused")
    runs["running"].events.emit("warn", message="rows.jsonl:17: no assistant turn: left out")
    runs["running"].worker_log.write_text("UserWarning: something from a library\n" * 3)
    return runs


def empty_views() -> list[View]:
    """The places before anything was done."""
    return [
        View("home-empty", keys("home"), ("None yet",)),
        View("models-empty", keys("models"), ("zen-nano",)),
        View("data-empty", keys("data"), ("What a file of examples looks like",)),
        View("runs-empty", keys("runs"), ("No runs yet",)),
        View("chat-empty", keys("chat"), ("Prompt",)),
        *(
            View(f"share-{name}-empty", tab(i), ("For example",))
            for i, name in enumerate(("deltas", "variants", "rounds", "lessons"))
        ),
        View("start-empty", pushed("start"), ("1 Examples",)),
        View("recommend-empty", pushed("recommend"), ("dpo for preference",)),
    ]


def waiting_views(file: Path) -> list[View]:
    """Screens whose commands have not answered yet, or have failed."""
    return [
        View("models", keys("models")),
        View("data", pasted("data", file)),
        View("chat", keys("chat")),
        *(
            View(f"share-{name}", tab(i))
            for i, name in ((1, "variants"), (2, "rounds"), (3, "lessons"))
        ),
        View("start", pushed("start", str(file))),
        View("recommend", pushed("recommend", str(file))),
        View("share-form-create", tab(2, "c")),
    ]


def filled_views(file: Path) -> list[View]:
    """All screens with something in them."""
    runs = runs_in_each_state()
    learned, sampled, tuned = fakes.lessons_run(done=True), sampled_run(), answers.tuned_run()
    return [
        View("home", keys("home"), ("Runs", "All runs")),
        View("models", keys("models"), ("zen-nano",)),
        View("models-absent", keys("models", "j", "j"), ("zen-nano",)),
        View("models-add", keys("models", "a"), ("Another model",)),
        View("models-ask", keys("models", "j", "j", "d"), ("Download zen-",)),
        View("data", pasted("data", file), ("Row 1 of 200", "OpenAI messages")),
        View("data-filter", pasted("data", file, "slash", "x"), ("OpenAI messages",)),
        View("data-browse", keys("data", "b"), ("Enter opens or chooses",)),
        View("runs", keys("runs"), ("stopped",)),
        *(
            View(f"run-{name}", run_of(run), ("step",))
            for name, run in runs.items()
            if name != "queued"
        ),
        View("run-queued", run_of(runs["queued"])),
        View("run-lessons", run_of(learned), ("balls@1",)),
        View("confirm", run_of(runs["running"], "x"), ("Stop",)),
        View("help", run_of(runs["running"], "question_mark"), ("Esc closes",)),
        View("name", run_of(runs["running"], "R"), ("Name of run",)),
        View("overlay", run_of(runs["running"], "o"), ("Draw beside this run",)),
        View("log", run_of(runs["running"], "l"), ("something from a library",)),
        View("export", run_of(runs["done"], "e"), ("1.6 MB",)),
        View("groups", run_of(sampled, "a"), ("6 answers by advantage",)),
        View("groups-none", run_of(runs["done"], "a"), ("No sampled answers yet",)),
        View("chat", talked, ("outside",)),
        View("chat-blind", blind, ("A",)),
        View("start", pushed("start", str(file)), ("200 rows", "90 steps")[1:]),
        View("start-settings", pushed("start", str(file), pressed=("ctrl+f",)), ("search",)),
        View("start-method", pushed("start", str(file), pressed=("ctrl+t",)), ("Enter chooses",)),
        View("recommend", pushed("recommend", str(file)), ("makes the better answer",)),
        View("command", pushed("command", "--version"), ("zoo-gym",)),
        View("share-deltas", tab(0), (tuned,)),
        View("share-codings", tab(0, "c"), ("No coding is measured yet",)),
        View("share-codings-done", tab(0, "c", "ctrl+s"), ("* --bits 2", "70.0%")),
        View("share-export", tab(0, "e"), ("Writes it for other programs",)),
        View("share-variants", tab(1), ("library-desk", "99.0%")),
        View("share-variant-new", tab(1, "c"), ("Stores a fine-tune",)),
        View("share-serve", tab(1, "s"), ()),
        View("share-rounds", tab(2), ("spring", "a copy of")),
        View("share-round-new", tab(2, "c"), ("Create a round",)),
        View("share-contribute", tab(2, "s"), ("What leaves",)),
        View("share-contribute-done", tab(2, "s", "ctrl+s"), ("166.7 kB",)),
        View("share-typed", tab(2, "s", "ctrl+s", "ctrl+s"), ("Send to round summer?",)),
        View("share-lessons", tab(3), ("sums", "Add the tens")),
        View("share-learn", tab(3, "l"), ("Estimate",)),
        View("share-diff", tab(3, "d", "ctrl+s"), ("+ Add the tens first.",)),
    ]


def views_of(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[View]:
    """Makes a world in the home of zoo-gym, and returns its screens."""
    answers.answer_as(monkeypatch, world)
    file = answers.chats_file(folder)
    monkeypatch.chdir(folder)
    if world == "empty":
        return empty_views()
    return filled_views(file) if world == "filled" else waiting_views(file)
