"""The unit tests of a row: those that any response would pass are refused by name."""

from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from zoo.gym.errors import NotAvailableError
from zoo.gym.rewards import load
from zoo.gym.rewards.code.row_tests import has_tests, problem_of, row_tests
from zoo.gym.rewards.code.unit_tests import UnitTests

CHECK = "def check(candidate):\n    assert candidate(1) == 2"
MAIN = "\nif __name__ == '__main__':\n    check(f)"
CLASS = "class TestF(unittest.TestCase):\n    def test_a(self): pass"
DEBUG = "def check(c):\n    assert True, 'debug'\n    assert c(1) == 2"
HUMAN = {"entry_point": "f", "test": CHECK}
RIGHT, WRONG = "def f(x):\n    return x + 1", "def f(x):\n    return None"


@pytest.fixture(scope="module")
def reward() -> UnitTests:
    try:
        return UnitTests()
    except NotAvailableError as error:
        pytest.skip(error.message)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"test_list": '["assert f(1) == 2", "assert f(2) == 3"]'},
        {"test_list": "['assert f(1) == 2', \"assert f(2) == 3\"]"},
        {"test_list": None, "tests": "assert f(1) == 2"},
        {"tests": ["import math", "assert f(1) == math.floor(2.5)", "x = 1"]},
        {"test": "def test_a():\n    assert f(1) == 2\n\ndef test_b(n=2):\n    assert f(n) == 3"},
        {"test": CHECK + "\ncheck(f)"},
        {"test": CHECK + MAIN, "entry_point": "f"},
        {
            "test": DEBUG,
            "entry_point": "f",
        },
        {"test": CHECK.replace("check", "run") + "\nrun(f)"},
        {"test": "for x in (1, 2):\n    if f(x) != x + 1:\n        raise ValueError"},
        {"test": "try:\n    f('a')\n    assert False\nexcept TypeError:\n    pass"},
        {"test": "import unittest\nunittest.TestCase().assertEqual(f(1), 2)"},
        {"test_list": ["assert f(N) == 4"], "test_setup_code": "N = 3"},
        {"test": "assert f(1) == 2", "entry_point": "f"},
        HUMAN,
    ],
)
def test_tests_pass_right_code_only(reward: UnitTests, fields: dict[str, Any]) -> None:
    samples = [sample(code, metadata=fields) for code in (RIGHT, WRONG, "x = 1")]
    assert [score.value for score in reward.score(samples)] == [1.0, 0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"test": CLASS},
            "test: class TestF is not run",
        ),
        ({"test": CHECK}, "test: check is not called: expected an entry_point as well"),
        (
            {"test": CHECK + MAIN},
            "test: check is not called",
        ),
        ({"tests": [{"input": 1}, "import math"]}, r"tests: item 1 is not text \(dict\)"),
        ({"tests": ["assert f(1) == 2", None]}, r"tests: item 2 is not text \(NoneType\)"),
        ({"test_list": ["assert f(1) == 2"], "test_imports": [5]}, "test_imports: item 1 is not"),
        ({"test_list": ["f(1) == 2"]}, r"test_list: 'f\(1\) == 2' is not asserted"),
        ({"test_list": ["assert f(1) == 2", "not f(1)"]}, r"'not f\(1\)' is not asserted"),
        ({"test_list": ["assert (f(1) == 2, 'no')"]}, "is always true"),
        ({"test_list": ["assert (f(x) == 2 for x in (1,))"]}, "is always true"),
        ({"test_list": ["assert True"]}, "test_list: no assert is executed"),
        ({"tests": ["import math", "x = f(1)"]}, "tests: no assert is executed"),
        ({"tests": "print(f(1))"}, "tests: no assert is executed"),
        ({"test": "def run():\n    assert f(1) == 2"}, "test: no assert is executed"),
        ({"test": "def check(c):\n    return c(1) == 2", "entry_point": "f"}, "no assert is"),
        ({"test": "def check(c):\n    c(1) == 2", "entry_point": "f"}, "is not asserted"),
        ({"test": "def test_a(tmp_path):\n    assert f(1) == 2"}, "test_a is not called"),
        ({"test": "async def test_a():\n    assert f(1) == 2"}, "test_a is not called"),
        ({"test_list": ["assert f(1) = 2"]}, "test_list: not Python: .*assert f"),
        ({"test": "[1, 2"}, "test: not Python: "),
        ({"test": '{"inputs": ["1"], "outputs": ["2"]}'}, "is not asserted"),
        ({"test": CHECK, "entry_point": 5}, "entry_point: not text"),
    ],
)
def test_tests_that_check_nothing_are_refused(
    reward: UnitTests, fields: dict[str, Any], problem: str
) -> None:
    row = task(metadata=fields)
    with raises("rewards.missing_column", rf"rows\.jsonl:1: .*{problem}"):
        load("tests", [row])
    assert row_tests(row) == ()
    assert reward.score([sample("x = 1", metadata=fields)])[0].failed


def test_useless_tests_are_refused_by_auto_too(reward: UnitTests) -> None:
    with raises("rewards.missing_column", "is not asserted"):
        load("auto", [task("5", metadata={"test_list": ["f(1) == 2"]})])


def test_each_test_that_checks_something_is_one_piece() -> None:
    row = task(metadata={"tests": ["import math", "assert f(1)", "def test_a():\n    assert f(2)"]})
    first, second = row_tests(row)
    assert first == "import math\nassert f(1)"
    assert second.endswith("\ntest_a()")
    assert problem_of(row) is None


@pytest.mark.parametrize("fields", [{}, {"test_list": []}, {"tests": ""}, {"tests": [{"a": 1}]}])
def test_rows_without_text_have_no_tests(fields: dict[str, Any]) -> None:
    assert not has_tests(task(metadata=fields))
