"""What the rows of a user's files can be used as: the same row often in several ways."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from zoo.gym.data.reading.dataset import read_in_order
from zoo.gym.data.records import LEARNED, Kind, Problem, Record
from zoo.gym.data.rows import as_chat, tools_of
from zoo.gym.recommend.rules import Use, Want
from zoo.gym.rewards.code.row_tests import has_tests
from zoo.gym.train.rollouts import task_of_record

MOST_ROWS = 2000
"""Rows of a file that are looked at; what the others are is not asked."""

_READINGS: tuple[frozenset[Kind], ...] = (
    frozenset({"pair"}),
    frozenset({"rated"}),
    frozenset({"prompt"}),
    LEARNED,
)
"""Kinds of rows, as the methods read them. A pair is no rated answer, and neither is learned."""

_WANTS: tuple[tuple[Use, Want], ...] = (
    ("pair", "preference"),
    ("rated", "preference"),
    ("tests", "reasoning"),
    ("answer", "reasoning"),
    ("calls", "tools"),
    ("chat", "style"),
    ("completion", "style"),
    ("text", "facts"),
    ("prompt", "lessons"),
)


@dataclass(frozen=True)
class DataFile:
    """The rows of a file.

    Attributes:
        rows: how many were looked at, at most `MOST_ROWS`.
        uses: how many of them can be used as what.
        problem: what is wrong with the first row that no method reads; empty without one.
        more: the file has more rows.
    """

    path: Path
    rows: int
    uses: Counter[Use]
    problem: str
    more: bool


def read_file(path: Path) -> DataFile:
    """Looks at the first rows of a file.

    Raises:
        NotAvailableError: it is missing.
        InputError: it cannot be data.
    """
    uses: Counter[Use] = Counter()
    rows, problem = 0, ""
    readings = zip(*(read_in_order(path, kinds) for kinds in _READINGS), strict=True)
    for row in islice(readings, MOST_ROWS):
        rows += 1
        found = set(_uses(row))
        uses.update(found)
        last = row[-1]
        if not found and not problem and isinstance(last, Problem):
            problem = str(last)
    return DataFile(path, rows, uses, problem, more=next(readings, None) is not None)


def _uses(row: Sequence[tuple[Record, ...] | Problem]) -> Iterator[Use]:
    """Yields what a row can be used as, from what each reading made of it."""
    pairs, rated, prompts, learned = (() if isinstance(part, Problem) else part for part in row)
    if pairs:
        yield "pair"
    elif rated:
        yield "rated"
    else:
        yield from chain.from_iterable(map(_of_prompt, prompts[:1]))
        yield from chain.from_iterable(map(_of_learned, learned[:1]))


def _of_prompt(record: Record) -> Iterator[Use]:
    task = task_of_record(record)
    if has_tests(task):
        yield "tests"
    elif record.answer is not None:
        yield "answer"
    elif not record.completion:
        yield "prompt"


def _of_learned(record: Record) -> Iterator[Use]:
    if record.kind in ("chat", "completion", "text"):
        yield record.kind
    turns = () if record.kind == "text" else as_chat(record)
    if any(turn.reasoning for turn in turns):
        yield "thought"
    if tools_of(record) or any(turn.calls for turn in turns):
        yield "calls"


def likely_want(uses: Counter[Use]) -> Want:
    """Returns what rows are usually made for: the first in the table of what most rows are."""
    return max(_WANTS, key=lambda pair: uses[pair[0]])[1]
