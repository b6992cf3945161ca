"""`zoo-gym runs remove`."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call
from zoo.gym.jobs import Run, create_run, list_runs, run_folders


@pytest.fixture
def run() -> Run:
    """A run whose process is gone."""
    made = create_run("model_name_or_path: b\n", {})
    made.identity_file.unlink()
    return made


def test_a_removed_run_is_gone_from_disk_and_list(call: Call, run: Run) -> None:
    kept = create_run("model_name_or_path: b\n", {})
    (run.folder / "result").mkdir()
    (run.folder / "result" / "weights").write_bytes(bytes(5000))
    found = call("runs", "remove", run.id, "--yes", "--json")
    assert found.json["run"] == "r0001"
    assert int(str(found.json["freed_bytes"])) >= 5000
    assert list(run.folder.parent.iterdir()) == [kept.folder]
    assert [row.id for row in list_runs()] == ["r0002"]


def test_without_a_yes_nothing_is_removed(call: Call, run: Run) -> None:
    found = call("runs", "remove", run.id)
    assert (found.code, "zoo-gym runs remove r0001 --yes" in found.stderr) == (2, True)
    assert [found.id for found in run_folders()] == [run.id]


def test_a_run_with_a_process_stays(call: Call) -> None:
    run = create_run("model_name_or_path: b\n", {})  # this process is the one that starts it
    assert json.loads(run.identity_file.read_text())["pid"] == os.getpid()
    found = call("runs", "remove", run.id, "--yes")
    assert (found.code, "zoo-gym runs stop r0001" in found.stderr) == (2, True)
    assert run.events.path.exists()


@pytest.mark.parametrize(("end_s", "code"), [(30.0, 0), (0.0, 2)])
def test_a_process_that_is_exiting_is_waited_for(
    call: Call, run: Run, monkeypatch: pytest.MonkeyPatch, end_s: float, code: int
) -> None:
    run.events.emit("end", state="done", exit_code=0)
    alive = iter([True, True, False])
    monkeypatch.setattr(sys.modules["zoo.gym.jobs.remove"], "has_worker", lambda _: next(alive))
    monkeypatch.setattr(sys.modules["zoo.gym.jobs.remove"], "END_S", end_s)
    assert call("runs", "remove", run.id, "--yes").code == code
    assert run.folder.exists() == bool(code)


def test_what_a_link_leads_to_stays(call: Call, run: Run, tmp_path: Path) -> None:
    elsewhere = run.folder.rename(tmp_path / "elsewhere")
    run.folder.symlink_to(elsewhere)
    assert call("runs", "remove", run.id, "--yes").code == 0
    assert not run.folder.is_symlink()
    assert (elsewhere / "events.jsonl").exists()


@pytest.mark.parametrize("state", ["running", "interrupted", "failed"])
def test_the_base_of_a_run_that_is_not_done_stays(call: Call, run: Run, state: str) -> None:
    other = create_run(f"model_name_or_path: {run.result}\n", {})
    other.events.emit("state", state=state)
    found = call("runs", "remove", run.id, "--yes")
    assert (found.code, "run 'r0002' is" in found.stderr) == (2, True)
    assert run.events.path.exists()


def test_the_base_of_a_run_that_is_done_is_removed(call: Call, run: Run) -> None:
    other = create_run(f"model_name_or_path: {run.result}\n", {})
    other.events.emit("end", state="done")
    assert call("runs", "remove", run.id, "--yes").code == 0
