"""Nothing overlaps, is cut, or out of reach: on each screen, in each state, at four sizes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from tests.gym.tui import layout
from tests.gym.tui.answers import World
from tests.gym.tui.views import views_of
from zoo.gym.tui.app import GymApp

ALIKE = {
    "run-done", "run-paused", "run-interrupted", "run-queued", "models-absent", "data-filter",
    "share-codings", "share-contribute", "share-variant-new", "share-export",
}  # fmt: skip
"""Views that are laid out as another one, which the test need not look at."""

SIZES = ((120, 36), (100, 30), (80, 24), (160, 45))


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", ["empty", "loading", "error", pytest.param("filled", marks=pytest.mark.nightly)]
)
def test_every_screen_has_room_at_every_size(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[str]()

    async def walk() -> None:
        app = GymApp()
        app.redraw_s, app.animation_level = 0.05, "none"
        async with app.run_test(size=SIZES[0]) as pilot:
            for view in views_of(world, tmp_path, monkeypatch):
                if view.name in ALIKE:
                    continue
                for width, height in SIZES:
                    await pilot.resize_terminal(width, height)
                    if (width, height) == SIZES[0]:
                        await view.show(app, pilot)
                    await pilot.pause(0.05)
                    where = f"{view.name} {world} {width}x{height}"
                    found.extend(f"{where}: {text}" for text in layout.problems(app.screen))
                await pilot.resize_terminal(*SIZES[0])

    asyncio.run(walk())
    assert found == []


class Small(App[None]):
    """A screen of 20x6 with what a test puts there."""

    def __init__(self, css: str, *widgets: object) -> None:
        super().__init__()
        self.stylesheet.add_source(css, read_from=("small", ""))
        self.widgets = widgets

    def compose(self) -> ComposeResult:
        yield from self.widgets  # type: ignore[misc]


def found_by(check: Callable[[Screen[object]], list[str]], css: str, *widgets: object) -> list[str]:
    async def look() -> list[str]:
        app = Small(css, *widgets)
        async with app.run_test(size=(20, 6)) as pilot:
            await pilot.pause()
            return check(app.screen)

    return asyncio.run(look())


def lines(count: int) -> Static:
    return Static("\n".join("line" for _ in range(count)))


class State(DataTable[Text]):
    """A table of one cell."""

    def __init__(self, cell: Text) -> None:
        super().__init__()
        self.cell = cell

    def on_mount(self) -> None:
        self.add_column("state")
        self.add_row(self.cell)


def test_a_widget_over_another_one_is_found() -> None:
    css = "Static { height: 1; } #b { offset-y: -1; }"
    assert "overlap" in found_by(layout.overlaps, css, Static("one"), Static("two", id="b"))[0]
    assert found_by(layout.overlaps, "", Static("one"), Static("two")) == []


def test_a_widget_beyond_its_parent_is_found_unless_that_scrolls() -> None:
    css = "Screen { overflow: hidden; } Vertical, VerticalScroll { height: 3; }"
    assert "is higher than" in found_by(layout.outside, css, Vertical(lines(5)))[0]
    assert found_by(layout.outside, css, VerticalScroll(lines(5))) == []


def test_a_text_that_is_cut_below_or_at_the_right_is_found() -> None:
    long = "a text that is longer than twenty cells"
    assert "cut below" in found_by(layout.cut_texts, "Static { height: 1; }", Static(long))[0]
    css = "Static { text-wrap: nowrap; }"
    assert "cut at the right" in found_by(layout.cut_texts, css, Static(long))[0]
    assert found_by(layout.cut_texts, "", Static(long)) == []


def test_a_title_or_an_example_that_is_too_long_is_found() -> None:
    box = Static("x")
    box.border_title = "a title of more than twenty"
    assert "border" in found_by(layout.cut_texts, "Static { border: round red; }", box)[0]
    assert "longer than" in found_by(layout.cut_texts, "", Input(placeholder="an example " * 3))[0]
    assert found_by(layout.cut_texts, "", Input(placeholder="short")) == []


def test_a_key_that_is_not_whole_in_the_footer_is_found() -> None:
    class Keys(Footer):
        BINDINGS = [(key, "app.bell", "a long description") for key in "abc"]  # noqa: RUF012
        can_focus = True

    assert "not whole" in found_by(layout.footer_rest, "", Keys())[0]
    assert found_by(layout.footer_rest, "", Footer(show_command_palette=False)) == []


def test_what_the_keyboard_does_not_reach_is_found() -> None:
    box = VerticalScroll(lines(9), can_focus=False)
    css = "VerticalScroll { height: 3; }"
    assert found_by(layout.without_focus, css, box) == [
        "VerticalScroll  scrolls by the mouse alone"
    ]
    assert found_by(layout.without_focus, css, VerticalScroll(lines(9))) == []


def test_a_state_told_by_colour_alone_is_found() -> None:
    assert "alone" in found_by(layout.colours_alone, "", State(Text("●", style="#5eead4")))[0]
    assert found_by(layout.colours_alone, "", State(Text("running", style="#5eead4"))) == []
    assert found_by(layout.colours_alone, "", State(Text("●", style="#a8a29e"))) == []
