"""A reward whose files change: no run, and no repeated command, mixes rewards of two kinds."""

import json
from pathlib import Path

import pytest

from tests.gym.experience.causal import TRUE
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.rewards import load_reward, reward_files
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.experience.tasks import read_tasks
from zoo.gym.jobs import open_run
from zoo.gym.paths import folders

pytestmark = pytest.mark.usefixtures("near")

SCORE = """import helping

def score(query, response, answer):
    return helping.one(response == answer)
"""
HELPER = "def one(same):\n    return float(same)\n"
INVERTED = "def one(same):\n    return 1 - float(same)\n"
FORMS = ("rw.py:score", "rw:score", "{rw.py:score: 1}", "[exact, rw.py:score]", "exact,rw.py:score")


@pytest.fixture(autouse=True)
def files(call: Call) -> None:
    del call  # it chose the folder
    Path("rw.py").write_text(SCORE)
    Path("helping.py").write_text(HELPER)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("changed", ["rw.py", "helping.py"])
def test_the_digests_of_a_reward_are_of_all_its_files(form: str, changed: str) -> None:
    config = ExperienceConfig(model="zen-pico", reward=form)
    tasks = write_tasks(Path("tasks.jsonl"), 4)
    split = Split(tuple(read_tasks([tasks])[0]))
    with load_reward(config, split) as reward:
        before = reward_files(config, reward)
    assert {Path(file).name for file in before} == {"rw.py", "helping.py"}
    Path(changed).write_text(Path(changed).read_text() + "# changed\n")
    with load_reward(config, split) as reward:
        after = reward_files(config, reward)
    assert [Path(file).name for file in before if after[file] != before[file]] == [changed]


@pytest.mark.slow
def test_a_run_is_not_resumed_with_a_changed_reward(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 40))
    words = ("--reward", "rw.py:score", "--max-new-tokens", "16", "--max-epochs", "1")
    result = call(
        "experience", "train", tasks, "--model", served.model, *words, "--max-tokens", "4000"
    )
    assert result.code == 5, result.stderr
    asked = len(served.server.requests)
    assert asked > 0
    run = open_run("last")
    noted = json.loads(run.env_file.read_text())["reward_digests"]
    assert {Path(file).name for file in noted} == {"rw.py", "helping.py"}
    Path("helping.py").write_text(INVERTED)
    result = call("runs", "resume", "last", "--set", "max_tokens=9000000", "--json")
    assert result.code == 2
    assert f"helping.py': expected the file that run {run.id} began with, got" in result.stderr
    assert len(served.server.requests) == asked
    Path("helping.py").write_text(HELPER)
    assert call("runs", "resume", "last", "--json").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rw.py:score", "{rw.py:score: 1}", "rw:score"])
def test_a_repeated_gate_starts_anew_with_a_changed_reward(
    form: str, call: Call, served: Served
) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    store.save("rules", Library((Item(f"For family-0 use strategy-{TRUE[0]}"),)))
    words = ("gate", "rules", tasks, "--model", served.model, "--reward", form)
    limits = ("--max-new-tokens", "16", "--draws", "1", "--max-tokens", "800")
    assert call("experience", *words, *limits).code == 5
    again = call("experience", *words, *limits)
    assert "continues after" in again.stderr
    Path("helping.py").write_text(INVERTED)
    changed = call("experience", *words, *limits)
    assert (changed.code, "continues after" in changed.stderr) == (5, False)
    assert len(list((folders().data / "measuring").glob("*.jsonl"))) == 2
