"""Nothing that a user gives is without effect: it is refused, or said."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.chat_server import Odd
from tests.codes import raises
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.errors import EXIT_CTRL_C, InterruptedRunError
from zoo.gym.experience import store
from zoo.gym.experience.calls.journal import Journal, Spent
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.jobs import open_run
from zoo.gym.published.training_free_grpo import TrainingFreeGRPO

pytestmark = pytest.mark.usefixtures("near")


@pytest.mark.parametrize("part", ["gate", "test"])
def test_draws_for_a_part_without_tasks_are_refused(part: str, call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("few.jsonl"), 12))
    words = (tasks, "--model", served.model, "--reward", "exact", f"--{part}-draws", "2")
    result = call("experience", "estimate", *words)
    assert result.code == 2
    assert f"{part}_draws: has no effect: expected at least 40 different tasks" in result.stderr
    other = str(write_tasks(Path("other.jsonl"), 12, first=12))
    assert call("experience", "estimate", *words, f"--{part}", other).code == 0


def test_equal_texts_are_counted_once(call: Call, served: Served) -> None:
    row = [json.dumps({"prompt": f"a {n % 30}", "answer": "b"}) for n in range(90)]
    Path("rows.jsonl").write_text("\n".join(row))
    result = call("experience", "estimate", "rows.jsonl", "--model", served.model)
    assert "90 tasks of 30 texts: too few for a gate" in result.stderr


def test_more_tasks_than_a_library_remembers_are_refused(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.gym.experience.start.MOST_SEEN", 32)
    tasks = str(write_tasks(Path("many.jsonl"), 44))
    result = call("experience", "estimate", tasks, "--model", served.model, "--reward", "exact")
    assert result.code == 2
    assert "tasks: expected at most 32 that teach or decide, got 33" in result.stderr


def test_a_provider_has_each_setting_once(call: Call) -> None:
    result = call(
        "providers", "set", "mine", "url=http://127.0.0.1:1/v1", "url=http://127.0.0.1:2/v1"
    )
    assert (result.code, "url: expected it once, got it twice" in result.stderr) == (2, True)


def test_a_pin_that_changes_nothing_stores_no_version(call: Call) -> None:
    item = Item("Add.")
    store.save("some", Library((item,)))
    store.save("some", Library((item, Item("Carry."))))
    store.use("some", 1)
    result = call("experience", "pin", "some", item.id, "--off", "--json")
    assert (result.code, result.json["version"], store.versions("some")) == (0, 1, [1, 2])


@pytest.mark.usefixtures("call")
def test_rows_of_python_are_named_as_such(served: Served) -> None:
    trainer = TrainingFreeGRPO(served.model)
    with raises("published.no_dataset", "dataset: expected rows"):
        trainer.train([])
    rows = [{"prompt": "a", "answer": "b"}, {"prompt": "c"}]
    with raises("rewards.missing_column", r"^dataset: row 2: .*expected what reward exact"):
        trainer.train(rows, "exact")


def test_offline_is_refused_with_its_own_exit_code(call: Call) -> None:
    tasks = str(write_tasks(Path("few.jsonl"), 12))
    store.save("some", Library((Item("Add."),)))
    for words in (
        ("train", tasks, "--model", "deepseek/x"),
        ("distill", "some", tasks, "--model", "zen-pico", "--teacher", "deepseek/x"),
    ):
        result = call("experience", *words, "--offline")
        assert (result.code, "--offline: expected models of this" in result.stderr) == (4, True), (
            words
        )


@pytest.mark.slow
def test_a_run_that_a_cap_ended_says_what_it_spent(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("few.jsonl"), 12))
    words = (tasks, "--model", served.model, "--reward", "exact", "--max-tokens", "4000", "--json")
    result = call("experience", "train", *words, "--max-new-tokens", "16")
    assert (result.code, result.json["spent_usd"]) == (5, 0.0)
    with closing(Journal(open_run("last").folder / "journal.jsonl")) as journal:
        journal.lost("key", "no answer", Spent(1, usd=0.25))
    again = call("runs", "resume", "last", "--json")
    assert (again.code, again.json["spent_usd"]) == (5, 0.25)


@pytest.mark.parametrize("verb", ["gate", "prune"])
def test_ctrl_c_says_how_to_continue(
    verb: str, call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.gym.experience.calls.caller.Caller.ask", stop)
    store.save("some", Library((Item("Add."), Item("Carry."))))
    tasks = str(write_tasks(Path("few.jsonl"), 12))
    result = call("experience", verb, "some", tasks, "--model", served.model, "--reward", "exact")
    assert result.code == EXIT_CTRL_C
    assert "hint: repeat the command: all answers are kept" in result.stderr


def test_a_number_of_lessons_without_lessons_is_refused(call: Call, served: Served) -> None:
    result = call("experience", "infer", "a?", "--model", served.model, "--top-k", "3")
    assert (result.code, "--top-k: has no effect without --library" in result.stderr) == (2, True)
    store.save("rules", Library((Item("Toys go to D."), Item("Books go to C."))))
    words = ("gate", "rules", str(write_tasks(Path("t.jsonl"), 12)), "--each", "--top-k", "3")
    result = call("experience", *words, "--model", served.model, "--reward", "exact")
    assert (result.code, "--top-k: has no effect with --each" in result.stderr) == (2, True)
    assert served.server.requests == []


def test_a_query_that_shares_no_word_with_a_lesson_says_so(call: Call, served: Served) -> None:
    store.save("rules", Library((Item("Toys go to D."), Item("Books go to C."))))
    served.odd = lambda *_: Odd(text="b")
    words = ("infer", "qqqq", "--model", served.model, "--library", "rules", "--top-k")
    one, all_of_them = (call("experience", *words, count) for count in ("1", "2"))
    assert (one.code, "no lesson shares a word with it" in one.stderr) == (0, True)
    assert (all_of_them.code, "no lesson shares" in all_of_them.stderr) == (0, False)


@pytest.mark.parametrize("option", ["test-draws", "temperature-eval"])
def test_a_distillation_without_a_test_takes_no_settings_of_one(option: str, call: Call) -> None:
    store.save("rules", Library((Item("Toys go to D."),)))
    tasks = str(write_tasks(Path("few.jsonl"), 12))
    words = ("distill", "rules", tasks, "--model", "zen-pico", "--reward", "exact")
    result = call("experience", *words, f"--{option}", "2", "max_steps=1")
    assert result.code == 2
    assert f"{option.replace('-', '_')}: has no effect: nothing is measured" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("reward", "expected"), [("exact", True), ("mine.py:score", False)])
def test_keys_of_rows_that_nothing_reads_are_named_once(
    reward: str, expected: bool, call: Call, served: Served
) -> None:
    Path("mine.py").write_text("def score(query, response, metadata):\n    return 1.0\n")
    row = {"answer": "b", "weight": 2, "difficulty": "hard"}
    rows = [json.dumps({"prompt": f"a {n}", **row}) + "\n" for n in range(12)]
    Path("rows.jsonl").write_text("".join(rows))
    words = ("rows.jsonl", "--model", served.model, "--reward", reward)
    result = call("experience", "estimate", *words)
    note = "tasks: keys that are not read: 'weight' (12 rows), 'difficulty' (12 rows)"
    assert (result.code, result.stderr.count(note)) == (0, int(expected)), result.stderr
    store.save("rules", Library((Item("Toys go to D."),)))
    served.odd = lambda *_: Odd(text="b")
    result = call("experience", "gate", "rules", *words)
    assert result.code == 1, "no answer is better with it"
    assert result.stderr.count(note) == int(expected)


def test_a_query_has_no_run_to_resume(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> None:
        raise InterruptedRunError("gone", hint="resume the run later: answers are kept")

    monkeypatch.setattr("zoo.gym.experience.use.Caller.ask", ask)
    result = call("experience", "infer", "a?", "--model", served.model)
    assert "repeat the command later" in result.stderr
    assert "resume" not in result.stderr
