"""`zoo-gym experience`: a run over HTTP from tasks to a library, its estimate and its replay."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chat_server import Body, Odd
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.calls.journal import FORMAT, METHOD
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.tasks import read_split
from zoo.gym.jobs import Run, open_run
from zoo.gym.jobs.events import tail_events

QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--teacher-max-new-tokens", "64")


UNGATED = ("--max-epochs", "1", "--group-size", "5")
SMALL = (*UNGATED, "--gate-draws", "2", "--test-draws", "1")


def train(call: Call, served: Served, *more: str, count: int = 60) -> dict[str, Any]:
    """Learns from tasks, a quarter of which test."""
    tasks = write_tasks(Path("sums.jsonl"), count)
    result = call(
        "experience", "train", str(tasks), "--model", served.model, *QUICK, *more, "--json"
    )
    assert result.code == 0, result.stderr
    return result.json


def journal(run: Run) -> list[dict[str, Any]]:
    lines = (run.folder / "journal.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_run_learns_tests_and_stores_a_library(call: Call, served: Served) -> None:
    found = train(call, served, *SMALL)
    assert (found["state"], found["library"], found["verdict"]) == ("done", "sums@1", "proven")
    assert isinstance(found["interval"], list)
    low, high = found["interval"]
    assert 0 < low < found["effect"] < high
    shown = call("experience", "show", "sums", "--json")
    assert shown.json["digest"] == found["digest"]
    assert "For family-" in str(shown.json["text"])
    listed = call("experience", "list", "--json").json["libraries"]
    assert [(one["name"], one["version"]) for one in listed] == [("sums", 1)]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_replay_gives_the_same_bytes_without_the_server(call: Call, served: Served) -> None:
    found = train(call, served, *SMALL)
    asked = len(served.server.requests)
    again = call("experience", "replay", "last", "--json")
    assert (again.code, again.json["same"], again.json["digest"]) == (0, True, found["digest"])
    assert len(served.server.requests) == asked
    run = open_run("last")
    path = run.folder / "journal.jsonl"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if "gate step 0 look 0 task" not in line]
    path.write_text("\n".join(kept) + "\n")
    broken = call("experience", "replay", "last", "--json")
    assert broken.code == 1
    assert str(broken.json["first_difference"]).startswith("gate step 0 look 0 task ")


@pytest.mark.usefixtures("near")
@pytest.mark.slow
def test_a_journal_of_another_version_is_named_in_a_replay(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(call, served, "--max-epochs", "1", "--group-size", "2", "--test-draws", "1", count=40)
    assert call("experience", "replay", "last", "--json").json["other_method"] is None
    path = open_run("last").folder / "journal.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    assert json.loads(first) == {"format": FORMAT, "method": METHOD}
    result = open_run("last").result
    report = json.loads((result / "report.json").read_text())
    (result / "report.json").write_text(json.dumps({**report, "files": None}))
    (result / "report.json.sig").unlink()
    told = call("experience", "replay", "last", "--json")  # this version has digests and signs
    assert (told.code, "journal.jsonl: changed" in str(told.json)) == (1, True)
    path.write_text("".join(rest))  # as before there were formats, and digests in reports
    assert call("experience", "replay", "last", "--json").json["same"] is True
    monkeypatch.setattr("zoo.gym.experience.learning.prompts.TEACHER", "You improve lessons.")
    told = call("experience", "replay", "last", "--json")
    assert (told.code, told.json["same"]) == (1, False)
    other = f"another version of zoo-gym (method 0, here {METHOD}), which asked otherwise"
    assert other in told.stderr
    assert "differs" not in told.stderr
    path.write_text(json.dumps({"format": FORMAT + 1, "method": 9}) + "\n" + "".join(rest))
    told = call("experience", "replay", "last", "--json")
    assert (told.code, "a later version of zoo-gym wrote it" in told.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_replay_writes_nothing(call: Call, served: Served) -> None:
    train(call, served, "--max-epochs", "1", "--group-size", "2", "--test-draws", "1", count=40)
    path = open_run("last").folder / "journal.jsonl"
    content = path.read_bytes()
    for damaged in (b"", content[:-20], content[: len(content) // 2]):
        path.write_bytes(damaged)
        assert call("experience", "replay", "last", "--json").code == 1
        assert path.read_bytes() == damaged


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_tasks_without_answers_learn_by_majority_and_are_marked(call: Call, served: Served) -> None:
    rows = [json.dumps({"prompt": f"TASK family-{n % 12} item-{n}"}) for n in range(60)]
    Path("bare.jsonl").write_text("\n".join(rows))
    words = ("bare.jsonl", "--model", served.model, "--max-new-tokens", "16", "--group-size", "3")
    assert call("experience", "train", *words, "--json").code == 2  # auto finds no answers
    more = (*words, "--reward", "majority", "--max-epochs", "1")
    need = call("experience", "estimate", *more, "--json").json["calls"]
    result = call("experience", "train", *more, "--json")
    assert result.code == 0, result.stderr
    assert "tasks are left out: most answers to them do not agree" in result.stderr
    assert len(served.server.requests) <= need["high"]  # type: ignore[index]
    assert len([one for one in journal(open_run("last")) if "label" in one.get("slot", "")]) == 360
    assert call("experience", "replay", "last", "--json").json["same"] is True


@pytest.mark.usefixtures("near")
def test_a_gate_refuses_the_majority_by_name(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    store.save("some", Library((Item("Add."),)))
    words = ("some", tasks, "--model", served.model, "--reward", "majority")
    result = call("experience", "gate", *words)
    assert (result.code, "expected another one than majority" in result.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_usage_is_within_the_estimate(call: Call, served: Served) -> None:
    tasks = write_tasks(Path("sums.jsonl"), 60)
    words = ("experience", "estimate", str(tasks), "--model", served.model, *QUICK, *SMALL)
    result = call(*words, "--json")
    assert result.code == 0
    assert served.server.requests == []
    train(call, served, *SMALL)
    [end] = [one for one in tail_events(open_run("last").events.path)[0] if one["kind"] == "end"]
    used = end["metrics"]
    for key, amount in (
        ("calls", used["calls"]),
        ("tokens", used["prompt_tokens"] + used["completion_tokens"]),
    ):
        bounds = result.json[key]
        assert isinstance(bounds, dict)
        assert bounds["low"] <= amount <= bounds["high"]
        assert bounds["low"] <= bounds["expected"] <= bounds["high"]


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_run_whose_answers_are_all_wrong_shows_some(call: Call, served: Served) -> None:
    def idle(_: Body, number: int) -> Odd:
        return Odd(text="no idea")

    served.odd = idle
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    words = (tasks, "--model", served.model, *QUICK, "--max-epochs", "1")
    result = call("experience", "train", *words)
    assert "all answers have the reward 0: there was nothing to compare" in result.stderr
    assert result.stderr.count("answer: no idea; expected: used strategy-") == 3
    run = open_run("last")
    rows = {task.messages[-1].content: task.answer for task in read_split(run.folder).train}
    lines = [line.strip() for line in result.stderr.splitlines()]
    for place, line in enumerate(lines):
        if line.startswith("task: "):
            assert lines[place + 1].endswith(f"expected: {rows[line.removeprefix('task: ')]}")


@pytest.mark.parametrize("model", ["deepseek/chat", "openai:gpt-5", "https://e.org/v1#m"])
def test_an_estimate_needs_no_key_price_or_cap(
    model: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DEEPSEEK_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    tasks = str(write_tasks(Path("sums.jsonl"), 48))
    words = (tasks, "--model", model, "--reward", "exact")
    result = call("experience", "estimate", *words, "--json")
    assert (result.code, result.json["calls"]["expected"] > 100) == (0, True)  # type: ignore[index]
    assert f"no price of {model} is known" in result.stderr
    assert "a run needs more: " in result.stderr
    refused = call("experience", "train", *words)
    assert refused.code == 2
    name = model.partition("/")[0].partition(":")[0] if "://" not in model else "NAME url="
    assert f"providers set {name}" in refused.stderr


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize(("cap", "is_said"), [("1000", True), ("100000000", False)])
def test_a_cap_below_what_is_expected_is_said_before(
    cap: str, call: Call, served: Served, *, is_said: bool
) -> None:
    words = (str(write_tasks(Path("sums.jsonl"), 60)), "--model", served.model, *QUICK)
    result = call("experience", "estimate", *words, "--max-tokens", cap)
    assert ("the cap is below what is expected" in result.stderr) is is_said


@pytest.mark.usefixtures("near")
def test_the_same_tasks_again_show_the_gate_no_smaller_gains(call: Call, served: Served) -> None:
    once = write_tasks(Path("once.jsonl"), 60)
    Path("often.jsonl").write_text(4 * once.read_text())
    words = ("--model", served.model, *QUICK, "--json")
    found = [
        call("experience", "estimate", name, *words).json for name in ("once.jsonl", "often.jsonl")
    ]
    assert found[0]["gate_tasks"] == found[1]["gate_tasks"] == 15
    seen = [cast("float", one["visible_effect"]) for one in found]
    assert seen[0] <= seen[1]  # a second step asks for more


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_run_without_better_answers_keeps_nothing(call: Call, served: Served) -> None:
    served.world.mode = "deaf"
    found = train(call, served, "--max-epochs", "1", "--group-size", "1")
    assert (found["verdict"], found["library"], found["effect"]) == ("nothing kept", None, None)


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_few_tasks_are_learned_without_a_gate_and_stay_unproven(call: Call, served: Served) -> None:
    tasks = write_tasks(Path("few.jsonl"), 24)
    words = ("experience", "train", str(tasks), "--model", served.model, *QUICK, *UNGATED)
    told = call(*words, "--json")
    assert (told.json["verdict"], told.json["interval"]) == ("unproven", None)
    assert "24 tasks: too few for a gate" in told.stderr
    assert "unproven" in call("experience", "list").stdout


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_run_parks_at_its_cap_and_a_higher_one_finishes_it(call: Call, served: Served) -> None:
    undisturbed = train(call, served, *SMALL)
    tasks = str(Path("sums.jsonl"))
    words = ("experience", "train", tasks, "--model", served.model, *QUICK, *SMALL, "--json")
    parked = call(*words, "--max-tokens", "4000")
    assert (parked.code, parked.json["state"]) == (5, "interrupted")
    assert "the cap of 4,000 tokens is reached" in parked.stderr
    bills = [one["bill"] for one in journal(open_run("last")) if "bill" in one]
    tokens = sum(bill["prompt_tokens"] + bill["completion_tokens"] for bill in bills)
    assert 2_000 < tokens <= 4_000
    refused = call("runs", "resume", "last", "--set", "group_size=3", "--json")
    assert refused.code == 2
    resumed = call("runs", "resume", "last", "--set", "max_tokens=10000000", "--json")
    assert resumed.code == 0, resumed.stderr
    assert resumed.json["digest"] == undisturbed["digest"]
    tailed = call("runs", "tail", "last")
    assert "step 1/1: reward " in tailed.stdout


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "--model: expected the model that answers, got nothing"),
        (("--model", "zen-nano"), 4, "not on this machine"),
        (("--model", "https://example.org/v1#m"), 2, "expected its price, or a cap in tokens"),
        (("--model", "http://127.0.0.1:9/v1#m", "--max-usd", "1"), 2, "no model has a price"),
        (("--model", "http://127.0.0.1:9/v1#m", "--group-size", "0"), 2, "group_size"),
        (("--model", "http://127.0.0.1:9/v1#m", "--name", "../x"), 2, "name"),
        (("--model", "http://127.0.0.1:9/v1#m", "--gate", "sums.jsonl"), 2, "of their own"),
        (("--model", "http://127.0.0.1:9/v1#m", "--system", "x" * 9, "--test", "no"), 4, "no"),
        (("--model", "https://e.org/v1#m", "--max-tokens", "9", "--offline"), 4, "--offline"),
        (("--model", "https://e.org/v1#m", "--max-tokens", "9"), 4, "expected your consent"),
    ],
)
def test_what_cannot_run_is_refused_before_there_is_a_run(
    call: Call, words: tuple[str, ...], code: int, said: str
) -> None:
    tasks = write_tasks(Path("sums.jsonl"), 48)
    result = call("experience", "train", str(tasks), "--reward", "exact", *words, "--json")
    assert (result.code, said in result.stderr) == (code, True), result.stderr
    assert call("runs", "list", "--json").json["runs"] == []


def test_a_version_can_be_used_again_and_compared(call: Call) -> None:
    for text in ("One.", "Two."):
        store.save("sums", Library((Item(text),)))
    changed = call("experience", "diff", "sums@1", "sums", "--json")
    assert changed.json == {"removed": ["One."], "added": ["Two."], "same": False}
    back = call("experience", "rollback", "sums", "1", "--json")
    assert back.json["version"] == 1
    assert call("experience", "diff", "sums@1", "sums", "--json").json["same"] is True
    assert call("experience", "rollback", "sums", "9", "--json").code == 4
