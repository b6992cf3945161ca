"""A conversation on a terminal: prompts, commands, and Ctrl-C."""

import sys
from typing import TYPE_CHECKING

from zoo.gym.cli.output import Output

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession

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


def _typed() -> str | None:
    """Returns what is typed at a prompt, without the blanks around it; None at the end."""
    print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None
