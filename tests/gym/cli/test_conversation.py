"""Talking on a terminal: commands, Ctrl-C and Ctrl-D; the model is a stand-in."""

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from zoo.backends.base import Sampling
from zoo.gym.cli.conversation import HELP, converse
from zoo.gym.cli.output import Output
from zoo.gym.data import Message
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library

CTRL_C = object()


class Parrot:
    """Answers in capitals; some prompts take so long that the user has enough."""

    def __init__(self) -> None:
        self.messages: list[Any] = ["earlier"]
        self.lessons = ""
        self.is_cut = False
        self.sampling = Sampling(max_new_tokens=9, temperature=1.0)

    def stream(self, prompt: str | None = None) -> Generator[str, None, str]:
        if prompt is None:
            again = str(self.messages[-2].content).title()
            yield again
            return again
        if prompt.startswith("long"):
            raise KeyboardInterrupt
        answer = prompt.upper()
        yield answer[:2]
        if prompt.startswith("slow"):
            raise KeyboardInterrupt
        yield answer[2:]
        self.is_cut = prompt.startswith("tell")
        self.messages = [*self.messages, Message("user", prompt), Message("assistant", "")]
        return answer


class Keys:
    """Standard input with a hand on Ctrl-C."""

    def __init__(self, typed: Iterator[object]) -> None:
        self.typed = typed

    def readline(self) -> str:
        line = next(self.typed, "")
        if line is CTRL_C:
            raise KeyboardInterrupt
        return str(line)


def talk(
    monkeypatch: pytest.MonkeyPatch, *typed: object, temperature: float = 1.0, base: Any = None
) -> tuple[list[str], Parrot]:
    monkeypatch.setattr(sys, "stdin", Keys(iter(typed)))
    parrot = Parrot()
    parrot.sampling = Sampling(max_new_tokens=9, temperature=temperature)
    turns = converse(cast("Any", parrot), Output(as_json=False), ask_base=base)
    return [turn["answer"] for turn in turns], parrot


def test_ctrl_d_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert talk(monkeypatch, "hello\n", "\n", "well\n")[0] == ["HELLO", "WELL"]


def test_ctrl_c_stops_an_answer_and_the_conversation_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(monkeypatch, "long story\n", "hello\n")[0] == ["HELLO"]
    assert "\nstopped; press Ctrl-C again to exit\n> " in capsys.readouterr().err


def test_an_answer_is_shown_while_it_is_computed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends it on its line, and it is no turn."""
    assert talk(monkeypatch, "slow story\n", "hello\n")[0] == ["HELLO"]
    assert capsys.readouterr().out == "SL\nHELLO\n"


@pytest.mark.parametrize("first", ["long story\n", CTRL_C])
def test_ctrl_c_twice_leaves(monkeypatch: pytest.MonkeyPatch, first: object) -> None:
    assert talk(monkeypatch, "hello\n", first, CTRL_C, "well\n")[0] == ["HELLO"]


def test_ctrl_c_between_answers_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    assert talk(monkeypatch, CTRL_C, "hello\n", CTRL_C, "well\n")[0] == ["HELLO", "WELL"]


def test_new_forgets_and_help_explains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, parrot = talk(monkeypatch, "/new\n", "/help\n")
    assert (answers, parrot.messages) == ([], [])
    assert capsys.readouterr().err.count(HELP) == 2


def test_an_unknown_command_is_not_a_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(monkeypatch, "/leave\n", "/etc/hosts?\n")[0] == ["/ETC/HOSTS?"]
    assert "no such command: /leave. /new" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["/quit\n", "/exit\n"])
def test_quit_ends_the_chat(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    assert talk(monkeypatch, "a\n", word, "b\n")[0] == ["A"]


def test_lessons_can_change_between_two_turns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    for name in ("one", "two"):
        store.save(name, Library((Item(f"Lesson {name}."),)))
    typed = ("/experience one, two\n", "/experience nothing\n", "hello\n")
    answers, parrot = talk(monkeypatch, *typed)
    assert answers == ["HELLO"]
    assert sorted(parrot.lessons.splitlines()[1:]) == ["- Lesson one.", "- Lesson two."]
    told = capsys.readouterr().err
    assert "one: these lessons are unproven" in told
    assert "no library 'nothing'" in told
    assert talk(monkeypatch, "/experience one\n", "/experience none\n")[1].lessons == ""


def test_lessons_that_were_measured_with_the_nearest_are_read_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    items = (Item("Count twice."), Item("Be quick."))
    store.save("near", Library(items, evidence={"top_k": 1}))
    parrot = talk(monkeypatch, "/experience near\n")[1]
    assert "2 lessons, the nearest 1 in each prompt" in capsys.readouterr().err
    choose = cast("Any", parrot.lessons)
    assert choose("be quick").splitlines()[1:] == ["- Be quick."]


def test_a_cut_answer_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(monkeypatch, "hello\n", "tell me all\n", "well\n")
    assert capsys.readouterr().err.count("cut after 9 tokens") == 1


def test_retry_puts_another_answer_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert talk(monkeypatch, "hello you\n", "/retry\n")[0] == ["Hello You"]


def test_a_greedy_answer_is_not_retried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(monkeypatch, "hello\n", "/retry\n", temperature=0.0)[0] == ["HELLO"]
    assert "--temperature 1" in capsys.readouterr().err


def test_base_answers_the_last_prompt_and_the_conversation_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def base(session: Any) -> str:
        return f"base: {session.messages[-2].content}"

    answers, parrot = talk(monkeypatch, "hello\n", "/base\n", base=base)
    assert answers == ["HELLO"]
    assert len(parrot.messages) == 3
    assert "base: hello" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [True, False])
def test_no_base_to_ask_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: bool
) -> None:
    def base(_: Any) -> str:
        raise InputError("it is not on this machine")

    assert talk(monkeypatch, "a\n", "/base\n", "b\n", base=base if missing else None)[0] == [
        "A",
        "B",
    ]
    said = "not on this machine" if missing else "this is the base itself"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["/retry\n", "/base\n"])
def test_nothing_to_repeat_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert talk(monkeypatch, "/new\n", command, base=lambda _: "")[0] == []
    assert "nothing to" in capsys.readouterr().err
