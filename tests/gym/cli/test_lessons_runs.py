"""Commands of runs that meet one of lessons."""

import pytest

from tests.gym.cli.conftest import Call
from tests.gym.tui import fakes


@pytest.mark.parametrize("words", [("delta", "create", "r0001"), ("chat", "--run", "r0001")])
def test_a_run_of_lessons_has_no_weights(call: Call, words: tuple[str, ...]) -> None:
    call("runs", "list")
    fakes.lessons_run(done=True)
    found = call(*words)
    assert found.code == 2
    assert "learned lessons: expected a run that trained weights" in found.stderr
    assert len(found.stderr.splitlines()) == 2  # the sentence and its hint


def test_runs_of_lessons_are_named(call: Call) -> None:
    call("runs", "list")
    fakes.lessons_run(done=True)
    fakes.distillation_run()
    assert "x (lessons)" in call("runs", "list").stdout
    assert "zen-pico (distillation)" in call("runs", "list").stdout
    assert "learns lessons in text" in call("runs", "show", "r0001").stdout
    assert "an adapter and its delta" in call("runs", "show", "r0002").stdout
    assert call("runs", "show", "r0001", "--json").json["kind"] == "lessons"
    assert call("runs", "show", "r0002", "--json").json["kind"] == "distillation"


def test_the_tail_of_a_run_of_lessons_ends_with_its_verdict(call: Call) -> None:
    call("runs", "list")
    fakes.lessons_run(done=True)
    lines = call("runs", "tail", "r0001").stdout.splitlines()
    assert lines[0].startswith("step 1/1: reward 0.2133")
    assert "balls@1 is proven: +53.3 points" in lines[1]
    assert lines[2] == "spent: 714 calls, 37,032 tokens, 0.0212 USD"
