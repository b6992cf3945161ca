"""A conversation on a terminal (prompts, commands, Ctrl-C), and prompts from a pipe."""

import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

from zoo.gym.cli.output import Output

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession

BYTE_ORDER_MARK = "\ufeff"
HELP = "/new starts a new conversation, Ctrl-C stops an answer, Ctrl-D leaves; /help shows this"


def converse(session: "ChatSession", out: Output) -> list[dict[str, str]]:
    """Answers what is typed until the user leaves, and returns the turns.

    Ctrl-C stops an answer, which is then forgotten with its prompt; a second one right after it
    leaves, as Ctrl-D does.
    """
    turns: list[dict[str, str]] = []
    interrupted = False
    out.say(HELP)
    while True:
        try:
            prompt = _typed()
            if prompt is None:
                return turns
            if prompt == "/help":
                out.say(HELP)
            elif prompt == "/new":
                session.messages = []
            elif prompt:
                turns.append({"prompt": prompt, "answer": session.talk(prompt)})
                out.answer(turns[-1]["answer"])
            interrupted = False
        except KeyboardInterrupt:
            print(file=sys.stderr)
            if interrupted:
                return turns
            interrupted = True
            out.say("stopped; Ctrl-C again leaves")


def answer_lines(session: "ChatSession", out: Output) -> list[dict[str, str]]:
    """Answers each line of standard input by itself, as it comes; a blank line by nothing."""
    turns: list[dict[str, str]] = []
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        prompt = line.rstrip("\r\n")
        if number == 0:
            prompt = prompt.removeprefix(BYTE_ORDER_MARK)
        answer = session.answer(prompt) if prompt.strip() else ""
        turns.append({"prompt": prompt, "answer": answer})
        out.answer(answer)
    return turns


def keep_odd_bytes() -> None:
    """Makes standard input hand on bytes that are not UTF-8, for the session to refuse by name.

    The interpreter would end on the first one, and with it the lines that came before. To be
    called before the first line is read.
    """
    if isinstance(sys.stdin, TextIOWrapper) and sys.stdin.errors != "surrogateescape":
        sys.stdin.reconfigure(errors="surrogateescape")


def _typed() -> str | None:
    """Returns what is typed at a prompt, without the blanks around it; None at the end."""
    print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None
