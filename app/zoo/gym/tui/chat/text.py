"""What the chat screen says: hints, titles, the state of its server, votes."""

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.gym.humanize import counted
from zoo.gym.paths import folders
from zoo.gym.terminal import visible
from zoo.gym.tui.chat.compare import read_score
from zoo.gym.tui.chat.server import ChatServer
from zoo.gym.tui.chat.sources import Source
from zoo.gym.tui.chat.turns import Turn
from zoo.models import PICO
from zoo.models.registry import CANNOT_CONVERSE

HELP = """
Select one model for a conversation, or up to four to compare: each prompt goes to all of them \
at the same seed and temperature, on its own. Words that differ from the first column are \
underlined and bold, without any colour.

A blind vote (v) shows two of the models as A and B in random order. Their names come after your \
vote; the score of each pair is kept on this machine.

o chooses the base. l chooses the library of lessons that the model under the cursor answers \
with; its column changes to that, and the model without lessons stays in the list.

The models are loaded once, by zoo-gym serve on 127.0.0.1: only programs of this machine can ask \
it, with a token. It ends with this app, or with x, which frees its memory.

Drop a delta or an adapter on the window to compare it, too.
"""

NONE = "No model is selected: press m, then space on one."
NO_RUNS = """Side by side needs a fine-tune of {base}: press n to train one, or drop a delta or \
adapter on this window.
Until then this is a plain chat with {base}: press w and write."""
ALONE = "A conversation with {name}: press w and write. Select a second model to compare them."
TOGETHER = """All columns answer the same prompt, at the same seed and temperature, each prompt \
on its own.
Words that differ are underlined and bold. Press w and write."""
BLIND_HINT = """Blind vote: write a prompt. Two of the models answer as A and B; their names come \
after your vote."""

MARK = "+"
"""Stands before the name of a library, as in the name of a model that answers with it."""

MOST_WARNINGS = 1
"""More would leave the list of models no room."""


def hint(columns: Sequence[Source], listed: Sequence[Source], base: str, *, is_blind: bool) -> str:
    """Returns what a column says before the first prompt.

    Args:
        columns: the sources that are selected.
        listed: all that could be.
        base: the base.
        is_blind: whether there is to be a vote.
    """
    if is_blind:
        return BLIND_HINT
    if not columns:
        return NONE
    if len(columns) > 1:
        return TOGETHER
    has_tuned = any(source.kind in {"run", "variant", "file"} for source in listed)
    text = ALONE.format(name=columns[0].label) if has_tuned else NO_RUNS.format(base=base)
    return visible(text)


def lesson_choices(
    source: Source, libraries: Mapping[str, Any]
) -> tuple[str, list[tuple[str, str, str]]]:
    """Returns the title and the choices of a dialog that asks for a library of lessons.

    Args:
        source: who answers with the lessons.
        libraries: the answer of `experience list`.
    """
    choices = [(MARK, "none", "the model as it is")]
    for entry in libraries["libraries"]:
        lessons, name = counted(int(entry["lessons"]), "lesson"), str(entry["name"])
        model = str(entry.get("model") or "")
        choices.append((f"{MARK}{name}", name, lessons + (f", for {model}" if model else "")))
    return f"Lessons of {source.label}", choices


def titles(columns: Sequence[Source], base: str) -> list[str]:
    """Returns the titles of the columns; only two have room to say more of each."""
    warned = [base == PICO and (len(columns) < 3 or each.kind == "base") for each in columns]
    return [
        f"{source.label} (cannot converse)" if warn else source.label
        for source, warn in zip(columns, warned, strict=True)
    ]


def about_base(base: str, about: str, count: int) -> str:
    """Returns what stands below the list of sources.

    Args:
        base: the base.
        about: what is known of it.
        count: how many sources there are, with it.
    """
    what = f"{base} {CANNOT_CONVERSE}." if base == PICO else about
    todo = "Space selects." if count > 1 else "No fine-tune of it yet: n trains one."
    return visible("\n".join(filter(None, (what, todo))))


def server_text(server: ChatServer | None, base: str, command: str) -> str:
    """Returns the state of the server, what it warns of, and its command."""
    lines = ["Off: it starts when you write."]
    if server is not None and server.state == "loading":
        lines = [f"Loading {base} ..."]
    elif server is not None and server.state == "ready":
        address = server.url.removeprefix("http://").removesuffix("/v1")
        lines = [f"Ready at {address}, for this machine alone."]
    elif server is not None and server.state == "failed":
        lines = ["Failed: the columns say why."]
    lines.append(command)
    runs = f"{folders().runs}/"
    for warning in [] if server is None else server.warnings[-MOST_WARNINGS:]:
        lines.append(f"Warning: {warning.removeprefix(runs)}")
    return visible("\n".join(lines))


def vote_text(turn: Turn | None, base: str) -> str:
    """Returns what a blind vote waits for, or its result."""
    if turn is None or turn.blind is None:
        return "Blind vote: write a prompt."
    if not turn.is_over:
        return "Blind vote: A and B are answering."
    if turn.voted:
        pair = turn.blind
        labels = {source.model(base): source.label for source in pair}
        score = read_score(pair[0].model(base), pair[1].model(base))
        return f"A was {pair[0].label}, B was {pair[1].label}. Votes: {score.words(labels)}."
    if turn.can_be_voted:
        return "Which answer is better?   a  A   b  B   =  equally good"
    return "Nothing to vote on: the answers are equal, or one is not complete."
