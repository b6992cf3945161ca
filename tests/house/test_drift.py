"""The report on another version of TRL, without installing one."""

from tests.house.drift import parity_tests, report


def test_the_tests_that_compare_are_found() -> None:
    names = {path.rpartition("/")[2] for path in parity_tests()}
    assert {"test_dpo_parity.py", "test_grpo_trl.py", "test_sft.py"} <= names
    assert "test_advantages.py" not in names


def test_agreement_is_one_line() -> None:
    assert report("9.0", "....\n12 passed in 3.00s\n") == "TRL 9.0 agrees: 12 passed"


def test_differences_are_listed_by_test() -> None:
    failed = [f"FAILED tests/a/test_b.py::test_c[{n}] - assert {n} == 9" for n in range(2)]
    printed = "\n".join(["FF.", *failed, "2 failed, 1 passed in 3s"])
    assert report("9.0", printed).splitlines() == [
        "TRL 9.0 differs: 2 failed, 1 passed",
        "  test_b.py::test_c: 2 times, assert 0 == 9",
    ]


def test_a_comparison_that_did_not_run_is_no_agreement() -> None:
    assert report("9.0", "ImportError: no module\n").startswith("TRL 9.0: the comparison did not")
    assert report("9.0", "").startswith("TRL 9.0: the comparison did not")
