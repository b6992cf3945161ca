"""The app by line: questions that make commands."""

import io
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gym.cli.test_output import Terminal
from tests.gym.tui import fakes
from zoo.gym.cli import main
from zoo.gym.cli.verbs import VERBS
from zoo.gym.tui.plain.steps import STEPS, Question, Step, words_of
from zoo.gym.tui.plain.talk import talk


def answered(monkeypatch: pytest.MonkeyPatch, *lines: str, code: int = 0) -> list[list[str]]:
    """Answers the questions with lines, and returns the commands that were run."""
    ran: list[list[str]] = []

    def run(words: Sequence[str]) -> int:
        ran.append(list(words))
        return code

    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    assert talk(run) == 0
    return ran


def number(title: str) -> str:
    return next(str(i) for i, step in enumerate(STEPS, 1) if step.title.startswith(title))


def test_answers_make_the_command_and_empty_ones_are_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = fakes.rows_file(tmp_path)  # its name has a blank
    ran = answered(monkeypatch, number("Train"), f"'{file}'", "", "lora_rank=8 max_steps=5", "")
    assert ran == [["train", str(file), "--model", "zen-pico", "lora_rank=8", "max_steps=5"]]
    words = f"zoo-gym train '{file}' --model zen-pico lora_rank=8 max_steps=5"
    assert f"Command: {words}" in capsys.readouterr().out


def test_a_question_without_a_default_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, number("Download"), "", "", "zen-nano", "") == [
        ["models", "get", "zen-nano"]
    ]


def test_a_contribution_is_sent_by_the_typed_word_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    step = number("Contribute")
    for typed, sent in (("", []), ("yes", []), ("send", ["--send"])):
        ran = answered(monkeypatch, step, "r0001", "", typed, "")
        assert ran == [["round", "contribute", "r0001", *sent]]


@pytest.mark.parametrize("lines", [["1"], ["1", "/x"], ["999", "x", "q"], [], ["q"]])
def test_what_is_not_confirmed_is_not_run(
    monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    assert answered(monkeypatch, *lines) == []


def test_n_goes_back_and_a_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor = number("Test")
    assert len(answered(monkeypatch, doctor, "n", doctor, "", code=3)) == 1
    assert "exit code 3" in capsys.readouterr().out


@pytest.mark.parametrize("step", STEPS, ids=lambda step: " ".join(step.words))
def test_every_step_is_a_command_with_these_options(
    step: Step, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {verb.words for verb in VERBS}
    assert " ".join(step.words).partition(" --")[0] in known | {"models"}
    main([*step.words, "--help"])
    shown = capsys.readouterr().out
    options = [question.option for question in step.questions if question.option]
    assert all(word in shown for word in [*options, *step.words] if word.startswith("--"))


def test_an_option_stands_before_its_answer_and_not_without_one() -> None:
    step = Step("x", ("export",), (Question("a"), Question("b", "--out")))
    assert words_of(step, ["r1", "f"]) == ["export", "r1", "--out", "f"]
    assert words_of(step, ["r1", ""]) == ["export", "r1"]


def test_a_quoted_setting_is_one_word_and_an_open_quote_a_letter() -> None:
    step = Step("x", ("train",), (Question("a", is_pairs=True),))
    assert words_of(step, ["a='1 2' b=3"]) == ["train", "a=1 2", "b=3"]
    assert words_of(step, ["a='1 2"]) == ["train", "a='1", "2"]


def test_answers_that_start_no_program_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{number('Look at')}\na\0b\n\n\nq\n"))
    assert talk() == 0
    assert "cannot be started" in capsys.readouterr().out


@pytest.mark.slow
def test_a_pipe_answers_the_questions_of_the_program() -> None:
    lines = f"{number('List the models')}\n\nq\n"
    words = [sys.executable, "-P", "-m", "zoo.gym", "--plain"]
    found = subprocess.run(words, input=lines, capture_output=True, text=True, check=True)
    assert "zen-pico" in found.stdout
    assert "\x1b" not in found.stdout


def test_a_dumb_terminal_opens_the_app_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Terminal())
    monkeypatch.setattr("zoo.gym.tui.plain.talk.talk", lambda: 7)
    assert main([]) == 7


@pytest.mark.slow
def test_the_first_path_by_line_ends_in_a_small_file_and_an_export(tmp_path: Path) -> None:
    rows = fakes.rows_file(tmp_path)
    answers = [
        *(number("Look at a file"), str(rows), "", ""),
        *(number("Train"), str(rows), "", "max_steps=5 lora_rank=4", ""),
        *(number("Compare a run"), "", ""),
        *(number("Compress a run"), "", ""),
        *(number("Export a run"), "", "peft", str(tmp_path / "written"), ""),
        "q",
    ]
    words = [sys.executable, "-P", "-m", "zoo.gym", "--plain"]
    lines = "".join(f"{answer}\n" for answer in answers)
    done = subprocess.run(
        words, input=lines, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.count("Done.") == 5, done.stdout + done.stderr
    assert "exit code" not in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "of the gain kept" in done.stdout + done.stderr
    assert [*tmp_path.rglob("*.delta.safetensors")]
    assert (tmp_path / "written" / "adapter_config.json").exists()
