"""Runs that end and a machine in need are heard of, each once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.jobs import list_runs
from zoo.gym.tui.alerts import Alerts, escape_of, needs_of
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.machine import Machine
from zoo.gym.tui.places import PLACES
from zoo.gym.tui.widgets.bar import Bar

GB = 1_000_000_000
WELL = Machine("Mac", 8, 16 * GB, 8 * GB, 500 * GB, 90 * GB, charge=80.0, plugged=False)


def machine(**fields: Any) -> Machine:
    return replace(WELL, **fields)


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({}, set()),
        ({"disk_free": GB}, {"disk"}),
        ({"memory_free": GB // 2}, {"memory"}),
        ({"charge": 12.0}, {"battery"}),
        ({"charge": 12.0, "plugged": True}, set()),
        ({"charge": None}, set()),
    ],
)
def test_a_machine_is_warned_of_what_runs_out(fields: dict[str, object], needs: set[str]) -> None:
    assert set(needs_of(machine(**fields))) == needs


def test_a_need_is_told_once_until_it_was_met() -> None:
    seen, low = Alerts(), machine(disk_free=GB)
    assert [len(seen.needs(each)) for each in (low, low, WELL, low)] == [1, 0, 0, 1]


def test_a_run_that_ended_is_told_once_and_one_that_ended_before_never(home: Path) -> None:
    old, run = fakes.trained(3), fakes.trained(4)
    fakes.end(old, "done")
    seen = Alerts()
    seen.look(list_runs())
    assert seen.ended() == []
    fakes.end(run, "failed", message="the disk is full")
    assert seen.ended() == [f"{run.id}: failed at step 4: the disk is full"]
    assert seen.ended() == []


def test_a_notification_has_no_field_of_its_own() -> None:
    assert escape_of("a;b") == "\x1b]9;a,b\x07\x1b]777;notify;zoo-gym;a,b\x07"


@pytest.mark.slow
@pytest.mark.parametrize("focus", [True, False])
def test_the_terminal_notifies_only_who_looks_elsewhere(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, focus: bool
) -> None:
    run, written = fakes.trained(3), list[str]()
    monkeypatch.setattr("zoo.gym.tui.app.READ_EVERY_S", 0.2)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Watch r0001")
        assert app._driver is not None
        monkeypatch.setattr(app._driver, "write", written.append)
        app.app_focus = focus
        fakes.end(run, "done")
        await shows(pilot, "r0001: done at step 3")
        await until(pilot, lambda: any("]9;" in text for text in written) != focus)

    drive(visit)


@pytest.mark.slow
def test_every_place_says_how_many_runs_are_active(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fakes.trained(3)
    monkeypatch.setattr("zoo.gym.tui.app.READ_EVERY_S", 0.2)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        for place in PLACES:
            await app.go(place.mode)
            await shows(pilot, "6 Share 1 run active")
        app.action_start()
        await shows(pilot, "> new training 1 run active")
        fakes.end(run, "done")
        await until(pilot, lambda: "active" not in screen_text(app).splitlines()[0])
        for place in PLACES:
            await app.go(place.mode)
            bar = app.screen.query_one(Bar).content
            assert isinstance(bar, Content)
            [here] = [span for span in bar.spans if span.style == "reverse"]
            assert bar.plain[here.start : here.end].strip() == f"{place.key} {place.name}"

    drive(visit, size=(90, 24))


@pytest.mark.slow
def test_one_key_starts_a_run_that_did_not_fit_in_smaller_steps(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = fakes.trained(2), list[list[str]]()
    fakes.end(run, "failed", message="it does not fit in memory", code="jobs.out_of_memory")

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, object]:
        asked.append(words)
        fakes.trained(1)
        return {"run": "r0002"}

    monkeypatch.setattr("zoo.gym.tui.runs.actions.ask_command", answer)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "M starts a new run in smaller steps", "M Smaller")
        await pilot.press("M")
        await shows(pilot, "zoo-gym runs retry r0001", "learns the same")
        assert asked == []
        await pilot.press("y")
        await shows(pilot, "> r0002")
        assert asked == [["runs", "retry", "r0001", "--detach"]]

    drive(visit, size=(120, 36))
