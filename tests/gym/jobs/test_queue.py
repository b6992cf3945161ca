"""Several runs and one device: one works, the others wait in the order of coming."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.codes import raises
from tests.gym.jobs.conftest import CONFIG
from zoo.gym.errors import NotAvailableError
from zoo.gym.files.lock import locked
from zoo.gym.jobs import actions, follow, launch, queue, read_status, resume, tail_events, worker
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.queue import place_in_line, runs_ahead, turn_on_device
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.paths import folders

Until = Callable[[Callable[[], bool]], None]


def started(entry: str) -> tuple[Run, int]:
    run = create_run(CONFIG, {})
    return run, launch(run, entry=f"entries:{entry}")


def waits(run: Run) -> bool:
    status = read_status(run)
    return (status.state, status.message is not None) == ("queued", True)


def states(run: Run) -> list[str]:
    return [event["state"] for event in tail_events(run.events.path)[0] if "state" in event]


@pytest.fixture
def two(until: Until) -> tuple[Run, Run]:
    """A run that has the device, and one that waits for it."""
    first, _ = started("in_turn_forever")
    until(lambda: read_status(first).step > 0)
    second, _ = started("in_turn")
    until(lambda: waits(second))
    return first, second


@pytest.mark.slow
def test_the_second_run_says_whom_it_waits_for_and_what_to_do(two: tuple[Run, Run]) -> None:
    status = read_status(two[1])
    assert status.message == "waiting for cpu behind r0001: starts automatically when it is free"
    assert "zoo-gym runs pause r0001 --park" in str(status.hint)
    assert "zoo-gym runs stop r0002" in str(status.hint)
    assert read_status(two[1]).step == 0


@pytest.mark.slow
def test_the_second_starts_automatically_when_the_first_ends(two: tuple[Run, Run]) -> None:
    actions.park(two[0])
    assert follow(two[1]).state == "done"
    assert states(two[1]) == ["queued", "running", "queued", "running", "done"]


@pytest.mark.slow
def test_a_killed_run_frees_the_device(two: tuple[Run, Run]) -> None:
    identity = read_identity(two[0].identity_file)
    assert identity is not None
    psutil.Process(identity.pid).kill()
    assert follow(two[1]).state == "done"


@pytest.mark.slow
@pytest.mark.parametrize(("end", "ended"), [(actions.stop, "stopped"), (actions.park, "parked")])
def test_a_waiting_run_can_be_stopped_and_parked(
    two: tuple[Run, Run], end: Callable[[Run], None], ended: str
) -> None:
    end(two[1])
    status = follow(two[1])
    assert (status.state, status.message) == ("interrupted", f"{ended} while waiting for cpu")
    assert read_status(two[0]).state == "running"


@pytest.mark.slow
def test_a_run_that_is_paused_in_the_wait_lets_others_pass(
    two: tuple[Run, Run], until: Until
) -> None:
    first, second = two
    actions.pause(second)
    until(lambda: read_status(second).state == "paused")
    third, _ = started("in_turn")
    until(lambda: waits(third))
    assert "behind r0001:" in str(read_status(third).message)
    actions.stop(first)
    assert follow(third).state == "done"
    resume(second)
    assert follow(second).state == "done"


@pytest.mark.slow
def test_runs_get_the_device_in_the_order_of_coming(two: tuple[Run, Run], until: Until) -> None:
    third, _ = started("in_turn")
    until(lambda: "behind r0001, r0002:" in str(read_status(third).message))
    actions.stop(two[0])
    assert follow(third).state == "done"
    begun = next(e["t"] for e in tail_events(third.events.path)[0] if e["kind"] == "step")
    assert follow(two[1]).updated <= begun


@pytest.mark.slow
def test_another_device_is_not_waited_for(run: Run) -> None:
    with turn_on_device(run, "cpu"), turn_on_device(create_run(CONFIG, {}), "cuda-0", wait=False):
        assert states(run) == ["queued"]


def test_a_run_in_the_caller_s_process_is_refused_in_a_sentence(run: Run) -> None:
    second = create_run(CONFIG, {})
    with (
        turn_on_device(run, "cuda-GPU-1"),
        pytest.raises(
            NotAvailableError, match=r"cuda is in use: .* got run 'r0001' on it"
        ) as refused,
        turn_on_device(second, "cuda-GPU-1", wait=False),
    ):
        pass
    assert refused.value.code == "jobs.device_in_use"
    with turn_on_device(second, "cuda-GPU-1", wait=False):
        assert states(second) == ["queued"]


def test_a_worker_s_training_takes_its_turn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*given: Any, own_process: bool) -> dict[str, object]:
        assert own_process
        with given[3]("cpu"):
            return {"places": len(list((folders().devices / "cpu").glob("*-r0001.lock")))}

    monkeypatch.setattr("zoo.gym.train.session.run_session", session)
    assert worker._train(run) == {"places": 1}


def test_a_place_whose_process_is_gone_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "00000007-r0001.lock").touch()
    with place_in_line(tmp_path, "r0002") as place:
        (tmp_path / "00000000-r0001.lock").touch()
        assert (place.name, runs_ahead(place)) == ("00000001-r0002.lock", [])


DIGITS = "\u0660" * 7 + "\u0661"  # eight digits, of another script
ODD = [f"{DIGITS}-r1.lock", "00000001-.lock", "1-r1.lock", "9" * 40 + "-r1.lock", "a\nb", "-"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("run_id", ["r0002", "my run", "a\nb", "\u0663"])
def test_a_file_of_any_name_stops_no_queue(tmp_path: Path, odd: str, run_id: str) -> None:
    (tmp_path / odd).touch()
    (tmp_path / "00000001-folder.lock").mkdir()
    with place_in_line(tmp_path, "r0001") as first, place_in_line(tmp_path, run_id) as second:
        assert (runs_ahead(first), runs_ahead(second)) == ([], ["r0001"])


def test_a_run_in_a_folder_of_any_name_gets_the_device(run: Run) -> None:
    odd = Run(run.folder.rename(run.folder.with_name("my own run")))
    with turn_on_device(odd, "cpu"):
        assert states(odd) == ["queued"]
        with raises("jobs.device_in_use", "got run 'my own run' on it"):
            turn_on_device(create_run(CONFIG, {}), "cpu", wait=False).__enter__()


def test_a_place_that_was_deleted_during_the_wait_ends_no_run(tmp_path: Path) -> None:
    with place_in_line(tmp_path, "r0001"), place_in_line(tmp_path, "r0002") as second:
        second.unlink()
        assert runs_ahead(second) == ["r0001"]


def test_places_are_numbered_after_the_last_live_one(tmp_path: Path) -> None:
    with ExitStack() as held:
        first = held.enter_context(place_in_line(tmp_path, "r0005"))
        second = held.enter_context(place_in_line(tmp_path, "r0004"))
        assert (first.name, second.name) == ("00000001-r0005.lock", "00000002-r0004.lock")
        assert (runs_ahead(first), runs_ahead(second)) == ([], ["r0005"])


def test_places_are_given_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "_GATE_S", 0.05)
    place = place_in_line(tmp_path, "r0001")
    with locked(tmp_path / "gate.lock"), raises("jobs.locked", r"was locked for 0\.05 s"):
        place.__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["gate.lock"]


def test_places_leave_no_crowd_of_files() -> None:
    for _ in range(5):
        with turn_on_device(create_run(CONFIG, {}), "cpu"):
            pass
    assert len(list((folders().devices / "cpu").iterdir())) == 2
