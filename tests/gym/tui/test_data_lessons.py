"""A file of lessons in the place Data."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.experience.library.exchange import FORMS
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.data.lessons import lessons_in
from zoo.gym.tui.share.form import FormScreen

LIBRARY = Library((Item("Add the tens first."), Item("Write a carry down.")))


def written(folder: Path, form: str) -> Path:
    """The library as a file in a form."""
    if form == "json":
        write_library(folder / "sums.json", LIBRARY)
        return folder / "sums.json"
    make, name = FORMS[form]
    path = folder / name.format("sums")
    path.parent.mkdir(exist_ok=True)
    path.write_text(make(LIBRARY, "sums"))
    return path


@pytest.mark.parametrize("form", [*FORMS, "json"])
def test_each_form_of_lessons_is_recognised(tmp_path: Path, form: str) -> None:
    file = lessons_in(written(tmp_path, form))
    assert file is not None
    assert (file.lessons, file.problem) == (tuple(item.text for item in LIBRARY.items), "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.md", "- a list\n- of anything\n"),
        ("rows.json", '{"prompt": "a", "completion": "b"}'),
        ("rows.json", "{"),
        ("rows.jsonl", '{"G0": "a"}'),
        ("config.yaml", "model: zen-pico\n"),
        ("empty.json", "{}"),
    ],
)
def test_other_files_are_left_to_the_inspection(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert lessons_in(tmp_path / name) is None
    assert lessons_in(tmp_path / "absent.json") is None


@pytest.mark.slow
def test_lessons_are_shown_and_imported_by_a_key(drive: Drive, tmp_path: Path) -> None:
    path = written(tmp_path, "ace")
    path.write_text(path.read_text() + "[x] helpful=1 harmful=0 :: Red \x1b[31m[b]x\n")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        assert "Import" not in screen_text(app)
        app.post_message(Paste(str(path)))
        await shows(pilot, "a playbook of ACE", "2 lessons, no rows", "Add the tens first.")
        await shows(pilot, "Not read as lessons", "i Import")
        assert "no known format" not in screen_text(app)
        assert "\x1b" not in screen_text(app)
        await pilot.press("i")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        await shows(pilot, "import lessons", "sums.playbook.txt")

    drive(visit, size=(80, 24))


@pytest.mark.slow
def test_a_library_that_was_changed_by_hand_says_so_and_is_not_imported(
    drive: Drive, tmp_path: Path
) -> None:
    path = written(tmp_path, "json")
    path.write_text(path.read_text().replace("tens", "ones"))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        app.post_message(Paste(str(path)))
        await shows(pilot, "a library of lessons of zoo-gym", "one that was edited")
        assert "i Import" not in screen_text(app)

    drive(visit)
