"""Answers to the rows of a data file, many at once, in the order of the file.

A row is asked up to the last turn that is not the assistant's; the answer that it has itself is its
reference. A row that cannot be asked is a problem in its place. Rows come and go between two tokens
(`Batcher`); a model whose rows cannot is asked in blocks.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.backends.batching import BLOCKED, FAILED, Request
from zoo.backends.machine.threads import with_threads
from zoo.backends.sampling import Rollout, Sampling
from zoo.gym.chat.session import TOGETHER, Answered, ChatSession
from zoo.gym.data.reading.dataset import read_in_order
from zoo.gym.data.records import ANSWERABLE, Message, Problem, Record, Tools
from zoo.gym.data.rows import as_chat, tools_of
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.backends.batching import Batcher

ROWS = 16
"""Answers that are computed at once, as many as a server computes."""

AHEAD = 8 * ROWS
"""Rows that are read, and may be answered, before the first of them is."""


@dataclass(frozen=True)
class Question:
    """What a row asks.

    Attributes:
        row: the number of the row in the file, from 1.
        turns: what is answered; the last turn is the user's or a tool's.
        tools: the tools that the answer may call.
        reference: the answer that the row has; None if it has none.
        problem: why it cannot be asked; empty if it can.
    """

    row: int
    turns: tuple[Message, ...] = ()
    tools: Tools = ()
    reference: object = None
    problem: str = ""


@dataclass(frozen=True)
class Reply:
    """What became of a question.

    Attributes:
        answered: its answer; None if there is none.
        problem: why there is none.
    """

    question: Question
    answered: Answered | None
    problem: str = ""


def questions(path: Path, unread: Counter[str] | None = None) -> Iterator[Question]:
    """Yields what the rows of a file ask, in order; one row may ask several.

    Args:
        path: a file of any format that is read.
        unread: gets how many rows have each key that is not read.

    Raises:
        NotAvailableError: the file is missing.
        InputError: it cannot be data.
    """
    for number, row in enumerate(read_in_order(path, ANSWERABLE, unread), 1):
        if isinstance(row, Problem):
            yield Question(number, problem=row.reason)
        else:
            yield from (question_of(number, record) for record in row)


def question_of(number: int, record: Record) -> Question:
    """Returns what a record asks, without the answer that it ends with."""
    turns = list(as_chat(record))
    answer: Message | None = None
    while turns and turns[-1].role == "assistant":
        answer = turns.pop()
    problem = "" if turns else "expected a turn of the user, got none"
    reference: object = answer.content if answer is not None and answer.content else None
    if record.kind == "prompt":
        reference = record.completion or None if record.answer is None else record.answer
    return Question(number, tuple(turns), tools_of(record), reference, problem)


def replies(
    session: ChatSession, asked: Iterable[Question], sampling: Sampling, *, first: int = 0
) -> Iterator[Reply]:
    """Yields the reply to each question, in their order; the session can answer nothing else then.

    Args:
        session: the model. Its system prompt is for questions without one of their own.
        asked: the questions.
        sampling: how answers are drawn; they end at the stops of the session.
        first: the number of the first question: answer n is drawn with the stream `seed + n`.
    """
    tokens = session.options.cutoff_len
    batcher = session.policy.batcher(rows=ROWS, tokens=tokens)
    rows = (_encoded(session, each, sampling, n) for n, each in enumerate(asked, first))
    if batcher is None:
        yield from _in_blocks(session, rows)
        return
    try:
        yield from _as_they_end(session, batcher, rows)
    finally:
        batcher.close()


@dataclass
class _Row:
    """A question with its tokens, and what was drawn so far."""

    question: Question
    ids: list[int]
    sampling: Sampling
    key: int
    problem: str = ""
    drawn: list[int] = field(default_factory=list[int])
    finish: str = ""

    def reply(self, session: ChatSession) -> Reply:
        if self.problem:
            return Reply(self.question, None, self.problem)
        rollout = Rollout(self.drawn, [], self.finish)
        return Reply(self.question, session.answer_of(self.ids, rollout, self.sampling))


def _encoded(session: ChatSession, question: Question, sampling: Sampling, number: int) -> _Row:
    row = _Row(question, [], sampling, session.seed + number, question.problem)
    if row.problem:
        return row
    turns = question.turns
    if session.system and turns[0].role != "system":
        turns = (Message("system", session.system), *turns)
    try:
        row.ids = session.prompt_ids(turns, question.tools)
        row.sampling = session.with_room(len(row.ids), sampling)
    except InputError as error:
        row.problem = error.message
    return row


_PROBLEMS = {
    FAILED: "the numbers of the model overflow",
    BLOCKED: "no token of the model continued the answer",
}


def _as_they_end(session: ChatSession, batcher: "Batcher", rows: Iterator[_Row]) -> Iterator[Reply]:
    """Yields the replies of a batcher, which gets the next row when one has ended."""
    begun: deque[_Row] = deque()
    by_number: dict[int, _Row] = {}
    while True:
        for row in islice(rows, AHEAD - len(begun)):
            begun.append(row)
            if not row.problem:
                request = Request(tuple(row.ids), row.sampling, row.key, session.policy.adapter)
                by_number[batcher.add(request)] = row
        if not begun:
            return
        while begun and (begun[0].finish or begun[0].problem):
            yield begun.popleft().reply(session)
        with with_threads(session.threads):
            events = batcher.step() if batcher.busy else []
        for event in events:
            row = by_number[event.row]
            row.drawn.append(event.id)
            if event.finish is not None:
                row.finish, row.problem = event.finish, _PROBLEMS.get(event.finish, "")
                del by_number[event.row]


def _in_blocks(session: ChatSession, rows: Iterator[_Row]) -> Iterator[Reply]:
    """Yields the replies of a model that computes a few prompts from beginning to end."""
    while block := list(islice(rows, TOGETHER)):
        asked = [row for row in block if not row.problem]
        for room in {row.sampling.max_new_tokens: None for row in asked}:
            _generate(session, [row for row in asked if row.sampling.max_new_tokens == room])
        yield from (row.reply(session) for row in block)


def _generate(session: ChatSession, rows: Sequence[_Row]) -> None:
    """Draws the answers of rows with the same settings."""
    keys = [row.key for row in rows]
    with with_threads(session.threads):
        rollouts = session.policy.generate([row.ids for row in rows], rows[0].sampling, keys=keys)
    for row, rollout in zip(rows, rollouts, strict=True):
        row.drawn, row.finish = rollout.ids, rollout.finish
