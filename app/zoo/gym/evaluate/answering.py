"""Asks a loaded model the items of a measure, and keeps what it gives line by line.

After a kill the same measure goes on behind the last line. What a line depends on (weights, items,
form, sampling) names its file, so that nothing is mixed and nothing is asked twice.
"""

import copy
import hashlib
import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.gym.chat.answer_lines import line_of
from zoo.gym.chat.rows import Question, replies
from zoo.gym.data.records import Message
from zoo.gym.data.rows import make_encoder
from zoo.gym.errors import GymError, InputError
from zoo.gym.evaluate.items import Item, Line, Measure
from zoo.gym.evaluate.likelihood import choice_lines, loss_lines
from zoo.gym.files.resumable import resumable
from zoo.gym.humanize import counted
from zoo.gym.paths import ensure_folder
from zoo.gym.serving.replies import Reply, ToolCall, require_calls
from zoo.gym.terminal import plain_json

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession
    from zoo.gym.data import Tokenizer

METHOD = 1
"""How items are asked: raised when a release asks the same ones otherwise, so that no earlier
answers count."""

Ask = Callable[[Sequence[Item], int, str], Iterable[Line]]
"""Yields a line for each item, the first of which has a number; a template may print the date."""


def answers_file(folder: Path, measure: Measure, settings: dict[str, object]) -> Path:
    """Returns the file that the lines of a measure are kept in."""
    named = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return folder / f"{measure.name}-{named[:12]}.jsonl"


def settings_of(measure: Measure, model: dict[str, object]) -> dict[str, object]:
    """Returns what lines depend on.

    Args:
        measure: what is asked.
        model: what answers, see `Contender.digests`.
    """
    items = hashlib.sha256()
    for item in measure.items:
        items.update(json.dumps(_asked(item), sort_keys=True, default=str).encode())
    return {
        **model,
        "method": METHOD,
        "measure": measure.name,
        "how": measure.how,
        "items": items.hexdigest(),
        "plain": measure.is_plain,
        "max_new_tokens": measure.max_new_tokens,
        "stops": list(measure.stops),
    }


def answered(
    path: Path,
    measure: Measure,
    settings: dict[str, object],
    ask: Ask,
    show: Callable[[int], None],
    check: Callable[[Sequence[Line]], None],
) -> tuple[list[Line], str]:
    """Returns a line for each item, those of the file first, and in words how many are of it.

    Args:
        path: see `answers_file`.
        measure: what is asked.
        settings: see `settings_of`.
        ask: gives the lines; not called if all are there.
        show: gets the number of lines so far.
        check: gets the lines of the file, and refuses to reuse those of another model.

    Raises:
        GymError: another process asks the same, or `check` refuses.
    """
    ensure_folder(path.parent)
    notes = {"date": time.strftime("%Y-%m-%d")}
    with _one_at_a_time(), resumable(path, settings, notes) as written:
        lines: list[Line] = list(written.lines())
        before, date = len(lines), str(written.notes["date"])
        check(lines)
        if before < len(measure.items) and not written.is_complete:
            for line in ask(measure.items[before:], before, date):
                written.append(plain_json(dict(line)))
                lines.append(line)
                show(len(lines))
    earlier = f"{counted(before, 'answer')} of {date}, " if before else ""
    return lines, f"{earlier}{len(lines) - before:,} asked now"


@contextmanager
def _one_at_a_time() -> Generator[None]:
    """Says of answers that another process gets right now what to do.

    Raises:
        GymError: another one does.
    """
    try:
        yield
    except GymError as error:
        if error.code != "files.being_written":
            raise
        hint = "wait for its end: its answers are used then"
        raise GymError(error.message, hint=hint, code=error.code) from None


def ask_session(session: "ChatSession", measure: Measure) -> Ask:
    """Returns what asks a loaded model.

    Raises:
        InputError: items have tools, and the model's chat template does not show them.
    """

    def ask(items: Sequence[Item], first: int, date: str) -> Iterator[Line]:
        session.options = replace(session.options, date=date)
        is_plain = asks_plainly(session, measure)
        asked = plain_session(session) if is_plain else session
        _require_tools(asked, items)
        match measure.how:
            case "generate":
                yield from _generated(asked, measure, items, first, is_plain=is_plain)
            case "choices":
                yield from choice_lines(asked, items)
            case "loss":
                yield from loss_lines(asked, items)

    return ask


def asks_plainly(session: "ChatSession", measure: Measure) -> bool:
    """Returns whether prompts are plain text: as the user says, or without a chat template."""
    if measure.is_plain:
        return True
    has_text = any(item.plain for item in measure.items)
    return has_text and make_encoder(session.tokenizer, session.options).template is None


def plain_session(session: "ChatSession") -> "ChatSession":
    """Returns the same model asked in plain text: no template, no system prompt."""
    tokenizer: Tokenizer = copy.copy(session.tokenizer)
    tokenizer.chat_template = None
    options = replace(session.options, joint="")
    return replace(session, tokenizer=tokenizer, options=options, system="")


def _generated(
    session: "ChatSession", measure: Measure, items: Sequence[Item], first: int, *, is_plain: bool
) -> Iterator[Line]:
    sampling = replace(session.sampling, max_new_tokens=measure.max_new_tokens)
    if is_plain:
        sampling = replace(sampling, stop_strings=measure.stops)
    questions = (_question(item, is_plain=is_plain) for item in items)
    for item, reply in zip(items, replies(session, questions, sampling, first=first), strict=True):
        line = line_of(reply)
        yield line | ({"calls": _calls(session, item, line)} if item.task.tools else {})


def _question(item: Item, *, is_plain: bool) -> Question:
    if is_plain and item.plain:
        return Question(item.row, (Message("user", item.plain),))
    return Question(item.row, item.task.messages, item.task.tools)


def _calls(session: "ChatSession", item: Item, line: Line) -> list[dict[str, object]]:
    """Returns the calls that an answer contains."""
    prompt = session.tokenizer.decode(session.prompt_ids(item.task.messages, item.task.tools))
    reply = Reply(session.tokenizer, prompt, item.task.tools)
    pieces = [*reply.add(str(line.get("answer", ""))), *reply.end()]
    calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
    return [{"name": call.name, "arguments": json.loads(call.arguments)} for call in calls]


def _require_tools(session: "ChatSession", items: Sequence[Item]) -> None:
    """Refuses questions with tools for a model that would not see them."""
    item = next((item for item in items if item.task.tools), None)
    if item is None:
        return
    turns = item.task.messages
    if session.prompt_ids(turns, item.task.tools) == session.prompt_ids(turns):
        raise InputError(
            "tools: expected a model whose chat template shows tools, got one that does not",
            hint="measure it on other tasks",
            code="evaluate.no_tools",
        )
    require_calls(session.tokenizer)


def _asked(item: Item) -> object:
    turns = [(turn.role, turn.content, str(turn.calls)) for turn in item.task.messages]
    ids = [] if item.example is None else cast("list[int]", item.example.ids.tolist())
    mask = [] if item.example is None else cast("list[bool]", item.example.mask.tolist())
    return [item.row, turns, list(item.task.tools), item.plain, item.choices, ids, mask]
