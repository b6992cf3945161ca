"""Commands over HTTP whose answers are cut, and runs whose files were changed afterwards."""

import json
from pathlib import Path

import pytest

from tests.chat_server import Odd
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.jobs import Run, open_run
from zoo.gym.jobs.events import tail_events

pytestmark = pytest.mark.usefixtures("near")

QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--teacher-max-new-tokens", "64")
SMALL = ("--max-epochs", "1", "--group-size", "5", "--gate-draws", "2", "--test-draws", "1")


@pytest.mark.slow
@pytest.mark.parametrize(("finish", "kind"), [("length", "cut"), ("stop", "empty")])
def test_a_run_says_that_answers_are_not_whole(
    finish: str, kind: str, call: Call, served: Served
) -> None:
    text = "" if kind == "empty" else "shelf"
    served.odd = lambda _body, _number: Odd(text=text, finish=finish)
    tasks = str(write_tasks(Path("sums.jsonl"), 20))
    result = call(
        "experience", "train", tasks, "--model", served.model, *QUICK, "--max-epochs", "1"
    )
    assert result.code == 0, result.stderr
    assert "warning: rollout: 100 of 100 answers (100%) are " in result.stderr
    assert "--max-new-tokens N allows more" in result.stderr
    [step] = [
        event for event in tail_events(open_run("last").events.path)[0] if event["kind"] == "step"
    ]
    assert step["ended"][kind] == 100


@pytest.mark.parametrize(
    ("finish", "words"),
    [
        ("length", "the answer is cut at 16 tokens: --max-new-tokens N allows more"),
        ("content_filter", "the answer is held back by the server's filter"),
    ],
)
def test_an_answer_that_is_not_whole_is_said(
    finish: str, words: str, call: Call, served: Served
) -> None:
    served.odd = lambda _body, _number: Odd(text="", finish=finish)
    words_of = ("infer", "a", "--model", served.model, "--max-new-tokens", "16", "--json")
    result = call("experience", *words_of)
    assert (result.code, result.json["finish"]) == (0, finish)
    assert words in result.stderr


def _change(run: Run, name: str, old: str, new: str) -> None:
    path = run.folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.slow
def test_a_replay_notices_each_changed_file(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 60))
    words = (*QUICK, *SMALL, "--json")
    assert call("experience", "train", tasks, "--model", served.model, *words).code == 0
    run = open_run("last")
    assert call("experience", "replay", "last").code == 0
    for name, old, new, part in (
        ("journal.jsonl", '"usd": 0.0', '"usd": 0.5', "report.json: spent_usd: "),
        ("journal.jsonl", '"role": "user"', '"role": "nobody"', "journal.jsonl: changed"),
        ("tasks.jsonl", '"part": "test", "source"', '"part": "test",  "source"', "tasks.jsonl: "),
        ("result/report.json", '"effect": ', '"effect": 1', "report.json: effect: "),
        ("result/report.json", "{", "{ ", "report.json: changed since it was signed"),
        ("result/report.json.sig", "ed25519", "ed25518", "report.json: changed since"),
    ):
        before = (run.folder / name).read_text()
        _change(run, name, old, new)
        told = call("experience", "replay", "last", "--json")
        assert (told.code, told.json["same"]) == (1, False), name
        assert part in str(told.json["first_difference"])
        (run.folder / name).write_text(before)
    lines = (run.folder / "journal.jsonl").read_text().splitlines()
    base = [json.loads(line) for line in lines if '"got"' in line and '"base step' in line]
    assert base
    text = json.dumps(base[0]["reply"]["text"])
    _change(run, "journal.jsonl", f'"text": {text}', '"text": "tampered"')
    assert call("experience", "replay", "last", "--json").json["same"] is False


@pytest.mark.slow
def test_a_run_is_not_resumed_with_changed_tasks(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 40))
    words = (*QUICK, "--max-epochs", "1", "--max-tokens", "4000", "--json")
    result = call("experience", "train", tasks, "--model", served.model, *words)
    assert result.code == 5, result.stderr
    run = open_run("last")
    _change(run, "tasks.jsonl", "strategy-", "strategy-9")
    result = call("runs", "resume", "last", "--set", "max_tokens=9000000", "--json")
    assert result.code == 2
    assert f"tasks.jsonl: expected the tasks that run {run.id} began with" in result.stderr
