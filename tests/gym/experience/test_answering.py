"""Commands that measure: killed or capped they are repeated, and pay for no answer twice."""

from pathlib import Path

import pytest

from tests.chat_server import Odd
from tests.gym.experience.causal import FAMILIES, TRUE
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.paths import folders

pytestmark = pytest.mark.usefixtures("near")

RULES = [Item(f"For family-{f} use strategy-{TRUE[f]}") for f in range(FAMILIES)]
QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--draws", "1")


def journals() -> list[Path]:
    return list((folders().data / "measuring").glob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["gate", "prune"])
def test_a_command_that_a_cap_ended_goes_on_where_it_was(
    verb: str, call: Call, served: Served
) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 12))
    store.save("rules", Library(tuple(RULES[:2])))
    words = ("experience", verb, "rules", tasks, "--model", served.model, *QUICK, "--json")
    few = call(*words, "--max-tokens", "800")
    assert (few.code, len(journals())) == (5, 1)
    assert "repeat the command with a higher --max-tokens" in few.stderr
    first = len(served.server.requests)
    assert first > 0
    whole = call(*words)
    assert whole.code in (0, 1), whole.stderr
    assert f"continues after {first} calls" in whole.stderr
    asked = len(served.server.requests)
    assert journals() == []
    store.use("rules", 1)
    again = call(*words)
    assert len(served.server.requests) - asked == asked
    kept = ("verdict", "effect") if verb == "gate" else ("left_out",)
    assert [again.json[key] for key in kept] == [whole.json[key] for key in kept]


@pytest.mark.slow
def test_what_was_spent_before_counts_under_the_cap(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 12))
    store.save("rules", Library(tuple(RULES)))
    words = ("experience", "gate", "rules", tasks, "--model", served.model, *QUICK)
    assert call(*words, "--max-tokens", "800").code == 5
    asked = len(served.server.requests)
    assert call(*words, "--max-tokens", "800").code == 5
    assert len(served.server.requests) == asked


@pytest.mark.slow
def test_other_tasks_lessons_or_rewards_have_another_journal(call: Call, served: Served) -> None:
    served.odd = lambda _, number: Odd(402, "{}") if number % 3 == 2 else None
    store.save("rules", Library(tuple(RULES[:2])))
    store.save("other", Library(tuple(RULES[2:3])))
    Path("r.py").write_text("def score(query, response):\n    return 1.0\n")
    first, second = (str(write_tasks(Path(f"{n}.jsonl"), 12, first=n)) for n in (0, 1))
    for words in (
        ("rules", first, *QUICK),
        ("rules", second, *QUICK),
        ("other", first, *QUICK),
        ("rules", first, *QUICK, "--temperature", "0.5"),
        ("rules", first, *QUICK[2:], "--reward", "r.py:score"),
    ):
        before = len(journals())
        assert call("experience", "gate", *words, "--model", served.model).code == 5
        assert len(journals()) == before + 1
    Path("r.py").write_text("def score(query, response):\n    return 0.5\n")
    call("experience", "gate", *words, "--model", served.model)
    assert len(journals()) == before + 2


@pytest.mark.slow
def test_the_estimate_is_said_before_and_is_not_passed(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 12))
    store.save("rules", Library(tuple(RULES[:2])))
    result = call("experience", "gate", "rules", tasks, "--model", served.model, *QUICK)
    assert "calls, at most: 24; tokens, low / expected / high: " in result.stderr
    assert "points of 100 is found four times of five" in result.stderr
    assert len(served.server.requests) == 24
    seen = len(served.server.requests)
    words = ("prune", "rules", tasks, "--model", served.model, *QUICK, "--near", "3")
    result = call("experience", *words)
    assert "calls, at most: 12;" in result.stderr
    assert len(served.server.requests) - seen <= 12


def test_an_answer_to_a_query_stays_under_its_cap(call: Call, served: Served) -> None:
    words = ("experience", "infer", "TASK family-2 item-1", "--model", served.model)
    result = call(*words, "--max-tokens", "100")
    assert (result.code, served.server.requests) == (5, [])
    assert "a lower --max-new-tokens" in result.stderr
    assert call(*words, "--max-tokens", "2000").code == 0


def test_a_library_is_read_as_it_was_measured(call: Call, served: Served) -> None:
    evidence = {"verdict": "proven", "effect": 0.2, "low": 0.1, "high": 0.3, "top_k": 1}
    store.save("some", Library(tuple(RULES[:3]), served.model, evidence=evidence))
    words = ("experience", "infer", "TASK family-2 item-1", "--model", served.model)
    result = call(*words, "--library", "some")
    assert "measured with" not in result.stderr
    assert served.server.requests[-1]["messages"][0]["content"].count("\n- ") == 1
    result = call(*words, "--library", "some", "--top-k", "2")
    assert "measured with the nearest 1 in a prompt: the nearest 2 are now" in result.stderr
