"""What becomes of whatever the examined process does."""

import pytest

from tests.gym.doctor.conftest import ALL_WELL, DEVICES, Examined, python
from zoo.gym.doctor.examine import Report, run_self_test
from zoo.gym.doctor.self_test import CHECKS


def states(report: Report) -> list[str]:
    return [check.state for check in report.checks]


@pytest.mark.slow
def test_a_machine_on_which_every_check_goes_well_can_train(examined: Examined) -> None:
    report = examined(ALL_WELL)
    assert (report.ok, states(report)) == (True, ["ok"] * len(CHECKS))


def test_a_failure_is_reported_and_the_later_checks_are_not_tried(examined: Examined) -> None:
    program = 'print(\'{"begin": "load"}\\n{"failed": "expected 2, got 3"}\'); raise SystemExit(1)'
    report = examined(program)
    assert (report.ok, report.checks[0].said) == (False, "expected 2, got 3")
    assert states(report) == ["failed", *["not tried"] * (len(CHECKS) - 1)]


def test_a_process_that_crashes_is_a_finding(examined: Examined) -> None:
    program = f"import os; print('{DEVICES}', flush=True)\n"
    program += 'print(\'{"begin": "load"}\', flush=True); os.kill(os.getpid(), 11)'
    bad = examined(program).checks[0]
    assert (bad.name, bad.said) == ("load", "the process was killed by SIGSEGV")


def test_a_library_that_is_broken_is_reported_with_its_own_message(examined: Examined) -> None:
    bad = examined("raise ImportError('no libcudart')").checks[0]
    assert (bad.name, bad.state, bad.said) == ("start", "failed", "ImportError: no libcudart")


@pytest.mark.slow
def test_a_process_that_hangs_is_ended() -> None:
    told = run_self_test(lambda _: None, python("import time; time.sleep(600)"), limit_s=0.5)
    assert told.checks[0].said == "no answer in 0.5 s"


@pytest.mark.parametrize(("free", "fits"), [(5_000_000_000, True), (2_000_000, False)])
def test_what_fits_depends_on_the_device_s_memory(
    examined: Examined, free: int, *, fits: bool
) -> None:
    jobs = examined(ALL_WELL.replace("5000000000", str(free))).jobs
    assert [job.fits for job in jobs if (job.model, job.method) == ("zen-nano", "lora")] == [fits]
