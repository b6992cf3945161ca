import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.errors import GymError
from zoo.gym.jobs.events import tail_events
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.run import Run, create_run, open_run, run_folders
from zoo.gym.processes import this_process

MANY = (
    "import sys; from zoo.gym.jobs.run import create_run\n"
    "print([create_run('', {}).id for _ in range(20)])"
)


def make(*names: str, home: Path) -> None:
    for name in names:
        folder = home / "data" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "events.jsonl").touch()


def test_a_new_run_is_queued_and_owned_by_its_maker(run: Run) -> None:
    (event,), _ = tail_events(run.events.path)
    assert (event["kind"], event["state"]) == ("state", "queued")
    assert read_identity(run.identity_file) == this_process()


def test_settings_are_stored_as_given_with_the_environment(home: Path) -> None:
    run = create_run("model: ä\n", {"torch": "2.13"})
    assert run.config_file.read_bytes() == "model: ä\n".encode()
    env = json.loads(run.env_file.read_text(encoding="utf-8"))
    assert (env["torch"], env["cwd"]) == ("2.13", str(Path.cwd()))
    assert run.folder.parent == home / "data" / "runs"


def test_ids_count_up(run: Run) -> None:
    assert [run.id, create_run("", {}).id] == ["r0001", "r0002"]


@pytest.mark.slow
def test_two_processes_that_create_at_once_share_no_id(home: Path) -> None:
    both = [
        subprocess.Popen([sys.executable, "-c", MANY], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0].count("r0") for process in both] == [20, 20]
    assert [process.returncode for process in both] == [0, 0]
    assert len(run_folders()) == 40


def test_a_number_that_was_taken_in_between_is_passed_over(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_yet(path: Path) -> Iterator[Path]:
        return iter(())

    monkeypatch.setattr(Path, "iterdir", nothing_yet)
    assert create_run("", {}).id == "r0002"


def test_newest_is_by_number_not_by_text(home: Path) -> None:
    make("r9999", "r10000", "r0002", "notes", home=home)
    assert [run.id for run in run_folders()] == ["r10000", "r9999", "r0002"]
    assert open_run("last").id == "r10000"
    assert create_run("", {}).id == "r10001"


def test_a_half_made_run_is_no_run_but_keeps_its_number(run: Run) -> None:
    (run.folder.parent / "r0002").mkdir()
    assert [found.id for found in run_folders()] == ["r0001"]
    assert create_run("", {}).id == "r0003"


@pytest.mark.parametrize("wanted", ["r0012", "12", "r12", "0012", "r001"])
def test_a_run_is_found_by_id_number_and_prefix(home: Path, wanted: str) -> None:
    make("r0012", "r0123", home=home)
    assert open_run(wanted).id == "r0012"


def test_an_ambiguous_prefix_names_the_runs(home: Path) -> None:
    make("r0012", "r0013", home=home)
    with raises("jobs.ambiguous", "'r001' is ambiguous: expected one run, got r0013, r0012"):
        open_run("r001")


def test_an_unknown_run_is_answered_with_the_nearest(home: Path) -> None:
    make("r0012", "r0090", home=home)
    with raises("jobs.no_such_run", r"no run 'r0099'.* Did you mean 'r0090'\?"):
        open_run("r0099")


@pytest.mark.parametrize("wanted", ["", "../r0012", "latest", "r", "٣", "-1"])
def test_what_names_no_run_opens_none(home: Path, wanted: str) -> None:
    make("r0012", "r0090", home=home)
    with pytest.raises(GymError, match=f"run '{wanted}'"):
        open_run(wanted)


def test_without_runs_the_answer_says_how_to_start_one(home: Path) -> None:
    with raises("jobs.no_such_run", "without runs") as raised:
        open_run("last")
    assert raised.value.hint == "start one with: zoo-gym train"


def test_a_folder_of_runs_that_cannot_be_made_is_a_storage_error(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "data").write_text("a file where the folder should be")
    with raises("paths.storage", r"cannot write '.*runs'"):
        create_run("", {})
