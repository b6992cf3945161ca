import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.jobs.control import Control, Request, wait_while_paused
from zoo.gym.jobs.events import EventLog, tail_events

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path / "control")


def states(log: EventLog) -> list[str]:
    return [event["state"] for event in tail_events(log.path)[0]]


def test_nothing_is_pending_at_first(control: Control) -> None:
    assert control.pending() is None


@pytest.mark.parametrize("kind", ["pause", "park", "stop"])
def test_a_request_is_pending_until_it_is_cleared(control: Control, kind: Request) -> None:
    control.request(kind)
    control.request(kind)
    assert control.pending() == kind
    control.clear(kind)
    assert control.pending() is None


def test_stop_wins_over_park_and_park_over_pause(control: Control) -> None:
    seen: list[str | None] = []
    for kind in ("pause", "park", "stop"):
        control.request(kind)
        seen.append(control.pending())
    assert seen == ["pause", "park", "stop"]


def test_clearing_without_a_name_clears_all(control: Control) -> None:
    control.request("pause")
    control.request("stop")
    control.clear()
    assert control.pending() is None


def test_leaving_needs_no_file(control: Control) -> None:
    control.leave()
    assert control.pending() == "stop"
    assert not control.folder.exists()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "control").write_text("a file")
    with raises("paths.storage", "cannot write"):
        Control(tmp_path / "control").request("stop")


def test_a_step_without_a_request_emits_nothing(control: Control, tmp_path: Path) -> None:
    log = EventLog(tmp_path / "e")
    assert wait_while_paused(control, log) is None
    assert states(log) == []


def test_a_stop_is_returned_at_once(control: Control, tmp_path: Path) -> None:
    control.request("stop")
    assert wait_while_paused(control, EventLog(tmp_path / "e")) == "stopped"


@pytest.mark.parametrize(
    ("then", "ended", "logged"),
    [
        (None, None, ["paused", "running"]),
        ("park", "parked", ["paused"]),
        ("stop", "stopped", ["paused"]),
    ],
)
def test_a_paused_run_continues_or_ends(
    control: Control,
    tmp_path: Path,
    until: Until,
    then: Request | None,
    ended: str | None,
    logged: list[str],
) -> None:
    log, returned = EventLog(tmp_path / "e"), list[str | None]()
    control.request("pause")
    worker = threading.Thread(target=lambda: returned.append(wait_while_paused(control, log)))
    worker.start()
    until(lambda: states(log) == ["paused"])
    control.request(then) if then else control.clear("pause")
    worker.join(10)
    assert (returned, states(log)) == ([ended], logged)
