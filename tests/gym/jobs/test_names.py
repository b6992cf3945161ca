"""Names of a user's choice for runs."""

import pytest

from tests.codes import raises
from zoo.gym.jobs import Run, create_run, open_run, rename


def test_a_renamed_run_is_found_by_name_and_id(run: Run) -> None:
    rename(run, "first-try")
    assert open_run("first-try").folder == open_run("r0001").folder == run.folder
    rename(open_run("first-try"), "best.one")
    assert open_run("best.one").id == "r0001"
    with raises("jobs.no_such_run", "no run 'first-try'"):
        open_run("first-try")


def test_a_runs_own_id_takes_its_name_away(run: Run) -> None:
    rename(run, "a")
    rename(run, "r0001")
    assert (run.name, run.name_file.exists()) == (None, False)


def test_a_taken_name_is_refused(run: Run) -> None:
    rename(run, "mine")
    other = create_run("", {})
    with raises("jobs.name_taken", "run name 'mine': expected an unused one, got that of run"):
        rename(other, "mine")
    assert other.name is None


@pytest.mark.parametrize("name", ["", "last", "r0002", "7", "a/b", "..", "-x", "a b", "x" * 65])
def test_what_is_no_name_is_refused(run: Run, name: str) -> None:
    with raises("jobs.bad_name"):
        rename(run, name)
