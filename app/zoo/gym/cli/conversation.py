"""A conversation on a terminal (prompts, commands, Ctrl-C), and prompts from a pipe."""

import re
import sys
from collections.abc import Callable, Generator
from io import TextIOWrapper
from typing import TYPE_CHECKING

from zoo.gym.cli.output import Output
from zoo.gym.errors import GymError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession

BYTE_ORDER_MARK = "\ufeff"
HELP = (
    "/new starts over, /retry answers again, /base asks the base the same, "
    "/experience NAME reads lessons (none: no more), "
    "Ctrl-C stops an answer, /quit or Ctrl-D exits; /help shows this"
)
_COMMAND = re.compile(r"/[a-z]+")


def converse(
    session: "ChatSession",
    out: Output,
    model: str = "",
    top_k: int | None = None,
    ask_base: Callable[["ChatSession"], str] | None = None,
) -> list[dict[str, str]]:
    """Answers typed prompts until the user exits, and returns the turns.

    Ctrl-C stops an answer, which is then dropped together with its prompt; a second Ctrl-C right
    after it exits, like Ctrl-D.

    Args:
        session: the conversation.
        out: where answers go.
        model: the model's name, which lessons are for.
        top_k: how many lessons a prompt has at most; None as they were measured.
        ask_base: returns what the base answers to the last turn; None if this is the base.
    """
    turns: list[dict[str, str]] = []
    interrupted = False
    commands: dict[str, Callable[[], object]] = {
        "/help": lambda: out.say(HELP),
        "/new": lambda: setattr(session, "messages", []),
        "/retry": lambda: _retry(session, out, turns),
        "/base": lambda: _answer_of_base(session, out, ask_base),
    }
    out.say(HELP)
    while True:
        try:
            print("> ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            prompt = line.strip() if line else None  # None: the input has ended
            if prompt is None or prompt in ("/quit", "/exit"):
                return turns
            if prompt in commands:
                commands[prompt]()
            elif prompt.partition(" ")[0] == "/experience":
                _read_lessons(session, prompt.partition(" ")[2].strip(), model, top_k, out)
            elif _COMMAND.fullmatch(prompt):
                out.say(f"no such command: {prompt}. {HELP}")
            elif prompt:
                turns.append({"prompt": prompt, "answer": _answer(session, out, prompt)})
            interrupted = False
        except KeyboardInterrupt:
            print(file=sys.stderr)
            if interrupted:
                return turns
            interrupted = True
            out.say("stopped; press Ctrl-C again to exit")


def _retry(session: "ChatSession", out: Output, turns: list[dict[str, str]]) -> None:
    """Answers the last prompt once more; the turn takes the place of the earlier one."""
    if not session.messages:
        out.say("nothing to answer again")
        return
    if not session.sampling.temperature:
        out.say("the most likely answer is the same each time: chat with --temperature 1")
        return
    turns[-1] = {**turns[-1], "answer": _answer(session, out)}


def _answer(session: "ChatSession", out: Output, prompt: str | None = None) -> str:
    """Shows an answer while it is computed, and returns it."""
    answer = ""

    def parts() -> Generator[str]:
        nonlocal answer
        answer = yield from session.stream(prompt)

    out.stream(parts())
    if session.is_cut:
        out.say(cut_notice(session))
    return answer


def cut_notice(session: "ChatSession") -> str:
    """Returns the message about an answer that reached the maximum length."""
    return f"cut after {session.sampling.max_new_tokens} tokens: --max_new_tokens for longer ones"


def _answer_of_base(
    session: "ChatSession", out: Output, ask: Callable[["ChatSession"], str] | None
) -> None:
    """Shows what the base answers to the last turn."""
    if ask is None:
        out.say("this is the base itself")
    elif not session.messages:
        out.say("nothing to ask the base: expected a prompt before")
    else:
        try:
            out.answer(ask(session))
        except GymError as error:  # it is not on this machine, for example
            out.say(str(error))


def _read_lessons(
    session: "ChatSession", library: str, model: str, top_k: int | None, out: Output
) -> None:
    """Puts lessons before the next turns; `none` takes them away."""
    from zoo.gym.experience.use import lessons_of

    if library == "none":
        session.lessons = ""
        out.say("no lessons")
        return
    try:
        lessons = lessons_of(library, model, top_k, out.say)
    except GymError as error:
        out.say(str(error))
        return
    session.lessons = lessons.text
    for notice in lessons.notices:
        out.say(notice)
    read = "" if lessons.top_k is None else f", the nearest {lessons.top_k} in each prompt"
    out.say(f"{counted(len(lessons.library.items), 'lesson')}{read}")


def answer_lines(session: "ChatSession", out: Output) -> list[dict[str, str]]:
    """Answers each line of standard input on its own, in one line each.

    A blank line gets an empty answer.
    """
    turns: list[dict[str, str]] = []
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        prompt = line.rstrip("\r\n")
        if number == 0:
            prompt = prompt.removeprefix(BYTE_ORDER_MARK)
        answer = session.answer(prompt) if prompt.strip() else ""
        turns.append({"prompt": prompt, "answer": answer})
        out.answer(escaped(answer))
        if _COMMAND.fullmatch(prompt):
            out.say(f"line {number + 1}: {prompt} is asked as a prompt: commands need a terminal")
        if answer and session.is_cut:
            out.say(f"line {number + 1}: {cut_notice(session)}")
    return turns


def escaped(answer: str) -> str:
    r"""Returns an answer on one line: a line end is `\n`, a backslash is doubled.

    >>> print(escaped("1. a" + chr(10) + "2. b"))
    1. a\n2. b
    """
    return answer.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")


def keep_odd_bytes() -> None:
    """Makes standard input pass on bytes that are not UTF-8, so that the session can report them.

    Otherwise the interpreter fails on the first one and loses the lines before it. Must be called
    before the first line is read.
    """
    if isinstance(sys.stdin, TextIOWrapper) and sys.stdin.errors != "surrogateescape":
        sys.stdin.reconfigure(errors="surrogateescape")
