"""Tasks that lessons were learned from are no evidence for them."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.experience.causal import FAMILIES, TRUE, tasks
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.distilling.start import measured_apart
from zoo.gym.experience.learning.split import Split, source_of, task_text
from zoo.gym.experience.library.item import Item, task_hash
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.tasks import read_split, seen_by, without_seen
from zoo.gym.jobs import open_run

pytestmark = pytest.mark.usefixtures("near")

QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--draws", "1", "--json")


def learned(count: int) -> Library:
    """Returns rules that were learned from the first tasks of a file."""
    hashes = tuple(task_hash(task_text(one)) for one in tasks(48, 0))[:count]
    rules = [Item(f"For family-{f} use strategy-{TRUE[f]}", step=1) for f in range(FAMILIES)]
    return Library((replace(rules[0], sources=hashes), *rules[1:]))


def asked(served: Served) -> set[str]:
    return {body["messages"][-1]["content"] for body in served.server.requests}


@pytest.mark.slow
@pytest.mark.parametrize("more", [("gate",), ("gate", "--each"), ("prune", "--near", "9")], ids=str)
def test_tasks_of_the_lessons_are_left_out(
    more: tuple[str, ...], call: Call, served: Served
) -> None:
    file = str(write_tasks(Path("own.jsonl"), 48))
    store.save("rules", learned(28))
    verb, *options = more
    result = call("experience", verb, "rules", file, "--model", served.model, *options, *QUICK)
    assert "28 of 48 tasks are left out: the lessons were learned from them" in result.stderr
    seen = {one.messages[-1].content for one in tasks(48, 0)[:28]}
    assert asked(served)
    assert not asked(served) & seen


def test_a_gate_with_too_few_other_tasks_is_refused(call: Call, served: Served) -> None:
    file = str(write_tasks(Path("own.jsonl"), 48))
    store.save("rules", learned(43))
    result = call("experience", "gate", "rules", file, "--model", served.model, *QUICK)
    assert (result.code, "expected at least 6" in result.stderr) == (2, True)
    assert "got 5: 43 of 48 tasks are left out" in result.stderr
    assert (served.server.requests, store.versions("rules")) == ([], [1])


def test_a_distillation_measures_on_other_tasks() -> None:
    every = tasks(48, 0)
    split = Split(every[:8], every[8:30], every[30:])
    found, [note] = measured_apart(split, learned(28))
    assert (len(found.train), len(found.gate), len(found.test)) == (28, 2, 18)
    assert note.startswith("20 of 40 tasks measure nothing")


@pytest.mark.slow
def test_seen_tasks_are_those_that_taught_or_decided(call: Call, served: Served) -> None:
    file = str(write_tasks(Path("sums.jsonl"), 60))
    words = ("--reward", "exact", "--max-new-tokens", "16", "--max-epochs", "1")
    call("experience", "train", file, "--model", served.model, *words, "--test-draws", "1")
    split = read_split(open_run("last").folder)
    taught = {source_of(one) for one in (*split.train, *split.gate)}
    assert seen_by(store.load("sums").library.items) == taught
    assert seen_by([Item("Something else.")]) == frozenset()


def test_white_space_and_case_make_no_fresh_task() -> None:
    every = tasks(20, 0)
    item = Item("Some lesson.", sources=tuple(map(source_of, every)))
    turns = [one.messages[-1] for one in every]
    texts = [turn.content.replace(" ", "  ", 1).upper() + "\n" for turn in turns]
    changed = [
        replace(one, messages=(*one.messages[:-1], replace(turn, content=text)))
        for one, turn, text in zip(every, turns, texts, strict=True)
    ]
    with raises("experience.seen_tasks", "20 of 20 tasks") as caught:
        without_seen(changed, seen_by([item]), 6)
    assert caught.value.code == "experience.seen_tasks"


def taught_here(call: Call, served: Served) -> tuple[str, tuple[str, ...]]:
    """Returns a file with the tasks that a run's lessons were learned from, and QUICK."""
    file = str(write_tasks(Path("sums.jsonl"), 60))
    words = ("--reward", "exact", "--max-new-tokens", "16", "--max-epochs", "1")
    call("experience", "train", file, "--model", served.model, *words, "--test-draws", "1")
    split = read_split(open_run("last").folder)
    rows = [
        {"prompt": one.messages[-1].content, "answer": one.answer}
        for one in (*split.train, *split.gate)
    ]
    Path("taught.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "taught.jsonl", ("--model", served.model, *QUICK)


@pytest.mark.slow
def test_the_tasks_of_a_removed_run_stay_known(call: Call, served: Served) -> None:
    file, quick = taught_here(call, served)
    shutil.rmtree(open_run("last").folder)
    result = call("experience", "gate", "sums", file, *quick)
    assert (result.code, "45 of 45 tasks are left out" in result.stderr) == (2, True)


@pytest.mark.parametrize("comments", ["kept", "gone"])
@pytest.mark.parametrize("name", ["sums", "other"])
@pytest.mark.slow
def test_texts_that_are_changed_by_hand_keep_the_tasks(
    comments: str, name: str, call: Call, served: Served
) -> None:
    file, quick = taught_here(call, served)
    call("experience", "export", "sums", "--out", "l.md")
    text = Path("l.md").read_text().replace("- For", "- for")
    Path("l.md").write_text(text if comments == "kept" else re.sub(" <!-- .* -->", "", text))
    assert call("experience", "import", "l.md", "--name", name).code == 0
    shutil.rmtree(open_run("last").folder)
    result = call("experience", "gate", name, file, *quick)
    assert (result.code, "45 of 45 tasks are left out" in result.stderr) == (2, True)
