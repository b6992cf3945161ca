"""Asks by line and runs the commands: one line each, no colour, no drawing."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence

from zoo.gym.terminal import visible
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.plain.steps import STEPS, Question, Step, words_of

Run = Callable[[Sequence[str]], int]


def talk(run: "Run | None" = None) -> int:
    """Asks what to do until `q` or the end of the input; returns an exit code.

    Args:
        run: runs a command of zoo-gym; by default in a process that has this terminal.
    """
    run = run or _run
    print("zoo-gym, by line. Nothing leaves this machine unless you confirm it.")
    _list()
    while True:
        try:
            answer = _ask(f"What to do? 1 to {len(STEPS)}, l lists them, q ends")
        except EOFError:
            return 0
        except KeyboardInterrupt:
            print()
            return 130
        if answer in {"q", "quit", "exit"}:
            return 0
        at = int(answer) if answer.isascii() and answer.isdigit() else 0
        step = STEPS[at - 1] if 1 <= at <= len(STEPS) else None
        if step is None:
            _list()
            continue
        try:
            _do(step, run)
        except EOFError:
            return 0
        except KeyboardInterrupt:
            print("\nNothing was started.")


def _do(step: Step, run: Run) -> None:
    answers = [_answer(question) for question in step.questions]
    words = words_of(step, answers)
    print(f"Command: {visible(shlex.join(['zoo-gym', *words]))}")
    if _ask("Enter runs it, n goes back").lower() in {"n", "no"}:
        return
    code = run(words)
    print("Done." if code == 0 else f"It ended with exit code {code}; the lines above say why.")


def _answer(question: Question) -> str:
    """Returns an answer; an empty line is the default, and asked again where there is none."""
    text = question.text + (f" [{question.default}]" if question.default else "")
    while True:
        answer = _ask(text)
        if answer and not question.option and not question.is_pairs:
            answer = pasted_path(answer)
        if answer or question.default is not None:
            return answer or question.default or ""
        print("An answer is needed; Ctrl-C goes back.")


def _ask(text: str) -> str:
    print(f"{text}: ", end="", flush=True)
    line = sys.stdin.readline()
    if not line:
        print()
        raise EOFError
    return line.strip()


def _list() -> None:
    for i, step in enumerate(STEPS, start=1):
        print(f"{i:>2}  {step.title}")


def _run(words: Sequence[str]) -> int:
    """Runs a command with this terminal; Ctrl-C is the command's own."""
    try:
        process = subprocess.Popen([sys.executable, "-P", "-m", "zoo.gym", *words])
    except (OSError, ValueError) as error:  # too long, or with a NUL
        print(f"It cannot be started with these answers: {error}")
        return 2
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
