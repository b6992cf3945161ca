"""Reward functions from files, in a process of their own."""

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from zoo.gym.errors import InputError
from zoo.gym.rewards import Reward, load

FILE = """
import os, subprocess, sys, time
from helper import LENGTH
print("printed while importing")

def length(query, response):
    print("printed by the function")
    return min(len(response), LENGTH)

def same(query, response, answer):
    return response == str(answer)

def odd(query, response):
    if response == "hang":
        while True:
            pass
    if response == "raise":
        raise KeyError("nothing \\x1b[2J")
    if response == "exit":
        os._exit(7)
    if response == "input":
        return len(sys.stdin.read())
    if response == "child":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open(__file__ + ".pid", "w").write(str(child.pid))
        time.sleep(600)
    if response == "nothing":
        return None
    return float(response)

def late(query, response):
    if response == "exit":
        os._exit(7)
    from later import VALUE
    return VALUE

def who(query, response):
    return os.getpid()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_rewards.py"
    path.write_text(FILE)
    (tmp_path / "helper.py").write_text("LENGTH = 3\n")
    (tmp_path / "later.py").write_text("VALUE = 1\n")
    return path


@pytest.fixture
def odd(file: Path) -> Iterator[Reward]:
    spec = {"kind": "function", "function": f"{file}:odd", "timeout_s": 4.0}
    with load(spec, []) as reward:
        yield reward


def values(reward: Reward, *responses: str) -> list[float]:
    return [score.value for score in reward.score([sample(text, 5) for text in responses])]


def test_a_function_scores_each_response_in_order(file: Path) -> None:
    with load(f"{file}:length", [task()]) as reward:
        assert reward.name == "length"
        assert values(reward, "a", "", "abcd") == [1.0, 0.0, 3.0]


def test_a_third_parameter_is_the_answer_as_the_row_has_it(file: Path) -> None:
    with load({f"{file}:same": 2.0}, []) as reward:
        assert values(reward, "5", "6") == [2.0, 0.0]


def test_what_it_prints_never_reaches_our_stdout(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with load(f"{file}:length", []) as reward:
        values(reward, "a")
    output, errors = capfd.readouterr()
    assert output == ""
    assert "printed while importing" in errors
    assert "printed by the function" in errors


def test_a_failing_call_costs_its_own_row_only(odd: Reward) -> None:
    scores = odd.score([sample(text) for text in ("1", "raise", "nothing", "input", "4")])
    assert [score.value for score in scores if not score.failed] == [1.0, 0.0, 4.0]
    assert scores[1].reason == "raised KeyError: 'nothing \\x1b[2J' (my_rewards.py:18)"
    assert scores[2].reason == "returned nothing (None): expected a number"


@pytest.mark.slow
def test_a_hanging_call_is_stopped_and_the_next_is_answered(odd: Reward) -> None:
    scores = odd.score([sample(text) for text in ("1", "hang", "exit", "4")])
    assert [score.failed for score in scores] == [False, True, True, False]
    assert scores[1].reason == "no result within 4 s"
    assert scores[2].reason == "the process ended with exit code 7"


@pytest.mark.slow
def test_what_a_hanging_call_started_is_ended_with_it(odd: Reward, file: Path) -> None:
    assert odd.score([sample("child")])[0].failed
    pid = int(Path(f"{file}.pid").read_text())
    time.sleep(0.2)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_closing_ends_the_process(file: Path) -> None:
    with load(f"{file}:who", []) as reward:
        pid = int(values(reward, "")[0])
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my_rewards.py", "helper.py"])
@pytest.mark.parametrize("content", ["LENGTH = 30\n" + FILE.partition("LENGTH")[2], "def f(:"])
def test_a_file_that_changes_before_a_restart_stops_the_run(
    odd: Reward, file: Path, name: str, content: str
) -> None:
    assert values(odd, "1") == [1.0]
    (file.parent / name).write_text(content)
    assert values(odd, "2") == [2.0]  # by the function as it was read
    with raises("rewards.function_failed", r"my_rewards\.py:odd': .*(changed|raised)"):
        odd.score([sample("exit"), sample("3")])


@pytest.mark.slow
def test_a_file_that_is_imported_late_may_not_change_either(file: Path) -> None:
    with load(f"{file}:late", []) as reward:
        assert values(reward, "a") == [1.0]
        (file.parent / "later.py").write_text("VALUE = -50\n")
        with raises("rewards.function_failed", r"later\.py' has changed"):
            reward.score([sample("exit"), sample("b")])


@pytest.mark.parametrize(
    "code",
    [
        "exec((pathlib.Path(__file__).parent / 'helper.py').read_text())",
        "LENGTH = runpy.run_path(str(pathlib.Path(__file__).parent / 'helper.py'))['LENGTH']",
    ],
    ids=["exec", "runpy"],
)
def test_code_that_is_read_while_a_file_is_loaded_is_a_source(code: str, file: Path) -> None:
    file.write_text(f"import pathlib, runpy\n{code}\ndef f(query, response): return LENGTH\n")
    with load(f"{file}:f", []) as reward:
        assert reward.sources.keys() == {str(file), str(file.parent / "helper.py")}
        assert values(reward, "a") == [3.0]


@pytest.mark.slow
def test_a_restart_with_the_same_files_goes_on(odd: Reward, file: Path) -> None:
    file.write_text("changed")
    file.write_text(FILE)
    scores = odd.score([sample("exit"), sample("3")])
    assert scores[0].failed
    assert scores[1].value == 3.0


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("def f(query): return 1", "f", r"expected f\(query, response\).* got f\(query\)"),
        ("def f(query, response): return 1", "g", "expected a function 'g', got only f"),
        ("import nothing_of_this_name", "f", "importing it raised ModuleNotFoundError"),
        ("def f(:", "f", "importing it raised SyntaxError"),
        ("import os; os._exit(3)", "f", "the process ended with exit code 3"),
    ],
)
def test_a_wrong_file_is_refused_before_any_response(
    tmp_path: Path, content: str, name: str, message: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(content)
    with raises("rewards.bad_function", message):
        load(f"{path}:{name}", [])


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with raises("rewards.no_such_file", r"no such file: '.*none\.py'"):
        load(f"{tmp_path}/none.py:f", [])


def test_a_module_is_found_in_the_working_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(file.parent))
    with load("my_rewards:length", []) as reward:
        assert values(reward, "ab") == [2.0]


def test_rows_that_json_cannot_express_are_refused(file: Path) -> None:
    with (
        load(f"{file}:same", []) as reward,
        pytest.raises(InputError, match="expected JSON values"),
    ):
        reward.score([sample("5", {1, 2})])
