"""Tasks of reasoning-gym: made as rows, scored by the rules of their environment.

What needs the package is skipped without it; a stand-in shows what is done with it.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.codes import raises
from zoo.backends.machine.installing import install_command
from zoo.gym.cli import main
from zoo.gym.errors import InputError
from zoo.gym.rewards import Sample, Task, load
from zoo.gym.rewards.environments import environment, package, rows
from zoo.gym.rewards.environments.environment import stated_answer

real = pytest.mark.skipif(
    find_spec(package.PACKAGE) is None, reason="reasoning-gym is not installed"
)


class Sums:
    """An environment as reasoning-gym has them."""

    def __init__(self, seed: int, size: int, accepts: float = 1.0, odd: bool = False) -> None:
        assert size > 0, "size must be positive"
        self.seed, self.accepts, self.odd = seed, accepts, odd

    def __getitem__(self, number: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {"source_dataset": "sums", "odd": {1} if self.odd else 1}
        return {"question": f"{self.seed}+{number}?", "answer": str(number), "metadata": metadata}

    def score_answer(self, answer: str, entry: dict[str, Any]) -> float:
        return self.accepts * float(answer == entry["answer"])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module, factory = ModuleType(package.PACKAGE), ModuleType(f"{package.PACKAGE}.factory")
    vars(module)["create_dataset"] = lambda name, **options: Sums(**options)
    vars(factory)["DATASETS"] = {"sums": Sums}
    vars(module)["factory"] = factory
    monkeypatch.setattr(package, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, package.PACKAGE, module)
    monkeypatch.setitem(sys.modules, f"{package.PACKAGE}.factory", factory)


def task(answer: str = "7", name: str = "chain_sum") -> Task:
    of_task = {"name": name, "answer": answer, "metadata": {"source_dataset": name}}
    return Task((), answer=answer, metadata={package.FIELD: of_task})


@pytest.mark.usefixtures("stand_in")
def test_rows_have_the_prompt_the_answer_and_what_scores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sums.jsonl"
    words = ["data", "make", "sums", "--rows", "3", "--seed", "5", "--out", str(file), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"] == 3
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["prompt"] for row in found] == ["5+0?", "5+1?", "5+2?"]
    assert found[2]["answer"] == found[2][package.FIELD]["answer"] == "2"
    assert main(words) == 2  # the file exists
    assert main([*words, "--force", "accepts=0.995"]) == 0


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("sum", {}, "'sum': no such environment"),
        ("sums", {"terms": 3}, "environment sums: an option is wrong"),
        ("sums", {"accepts": 0.5}, "it does not accept the answer to task 1"),
        ("sums", {"odd": True}, "its tasks cannot be stored"),
    ],
)
def test_what_cannot_be_made_is_refused(name: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        list(rows.rows(name, 2, 0, options))


@pytest.mark.parametrize("word", ["odd", "seed=3", "a=["])
def test_a_wrong_option_is_refused(word: str) -> None:
    assert main(["data", "make", "sums", word]) == 2


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda _: None)
    with raises("rewards.missing_package") as raised:
        load("environment", [task()])
    assert str(raised.value.hint).startswith(install_command("environments"))


@pytest.mark.usefixtures("stand_in")
def test_a_row_that_no_environment_made_is_refused() -> None:
    with raises("rewards.missing_column", "no environment: expected what reward environment"):
        load("environment", [Task((), answer="7")])


@pytest.mark.parametrize(
    ("response", "answer", "stated"),
    [
        ("<think>8</think>The answer is 7", "7", "7"),
        ("so \\boxed{7}", "7", "7"),
        ("1 2\n3 4", "1 2\n3 4", "1 2\n3 4"),
        ("Answer: see below\n1 2\n3 4", "1 2\n3 4", "Answer: see below\n1 2\n3 4"),
        ("Here:\n<answer>\n1 2\n3 4\n</answer>", "1 2\n3 4", "1 2\n3 4"),
    ],
)
def test_the_answer_that_a_response_states(response: str, answer: str, stated: str) -> None:
    assert stated_answer(Sample(task(answer), response)) == stated


@real
def test_the_rules_of_each_environment_score_its_rows() -> None:
    made = [json.loads(line) for line in rows.rows("chain_sum", 2, 42)]
    tasks = [
        Task((), answer=row["answer"], metadata={package.FIELD: row[package.FIELD]}) for row in made
    ]
    tasks.append(task(name="never_made"))
    with load("environment", tasks) as reward:
        right = [Sample(one, f"The answer is {one.answer}") for one in tasks]
        scores = reward.score([*right, Sample(tasks[0], "no idea")])
    assert [score.value for score in scores[:2]] == [1, 1]
    assert scores[2].failed
    assert "no such environment" in scores[2].reason
    assert scores[3].value < 0.1


@real
def test_auto_chooses_the_environment() -> None:
    made = [json.loads(line) for line in rows.rows("chain_sum", 2, 42)]
    tasks = [Task((), answer=row["answer"], metadata=row) for row in made]
    with load("auto", tasks) as reward:
        assert reward.name == "environment"
    assert environment.of_task(tasks[0]) is not None
