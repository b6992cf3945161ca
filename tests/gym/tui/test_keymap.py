"""Keys of the user's own."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.codes import raises
from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.keymap import keys_file, read_keymap


def write(text: str) -> None:
    keys_file().parent.mkdir(parents=True, exist_ok=True)
    keys_file().write_text(text)


def test_without_a_file_every_key_is_as_it_is(home: Path) -> None:
    assert read_keymap({"pause": "space"}) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"pause": 1}',
        '{"pause": ""}',
        '{"paws": "p"}',
        "ÿ",
        '{"pause": "ctrl+banana"}',
        '{"pause": "tab"}',
        '{"pause": "pp"}',
        '[["pause", "p"]]',
    ],
)
def test_what_names_no_action_and_key_is_refused_with_the_names(home: Path, text: str) -> None:
    write(text)
    with raises("tui.bad_keys", "expected") as refused:
        read_keymap({"pause": "space"})
    assert "pause" in str(refused.value.hint)


@pytest.mark.parametrize("text", ['{"pause": "p", "pause": "x"}', '{"pause": "p", "runs": "p"}'])
def test_a_name_or_key_that_is_there_twice_is_refused(home: Path, text: str) -> None:
    write(text)
    with raises("tui.bad_keys", "once"):
        read_keymap({"pause": "space", "runs": "4"})


def test_actions_that_share_a_key_may_share_another_one(home: Path) -> None:
    write('{"pause": "p", "resume": "p"}')
    assert read_keymap({"pause": "space", "resume": "space"}) == {"pause": "p", "resume": "p"}


def test_a_key_of_another_action_is_free_where_that_one_has_a_new_key(home: Path) -> None:
    usual = {"pause": "space", "runs": "4"}
    write('{"pause": "4"}')
    with raises("tui.bad_keys", "the key of 'runs'"):
        read_keymap(usual)
    write('{"pause": "4", "runs": "space"}')
    assert read_keymap(usual) == {"pause": "4", "runs": "space"}


@pytest.mark.slow
def test_a_key_that_takes_the_place_of_another_is_reported(drive: Drive) -> None:
    fakes.trained(20)
    write('{"pause": "e"}')

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "r0001")
        await pilot.press("enter")
        await shows(pilot, "e was the key of Export")

    drive(visit)


@pytest.mark.slow
def test_another_key_does_what_the_usual_one_did(drive: Drive) -> None:
    run = fakes.trained(20)
    write('{"runs": "ctrl+r", "pause": "p"}')

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await pilot.pause(0.2)
        assert app.current_mode == "home"
        await pilot.press("ctrl+r")
        await shows(pilot, run.id, "p Pause")
        await pilot.press("space")
        await pilot.press("p")
        await until(pilot, lambda: run.control.pending() == "pause")

    drive(visit)


@pytest.mark.slow
def test_a_damaged_file_is_reported_and_the_usual_keys_work(drive: Drive) -> None:
    fakes.trained(20)
    write("{")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "keys in JSON")
        await pilot.press("4")
        await shows(pilot, "r0001")

    drive(visit)
