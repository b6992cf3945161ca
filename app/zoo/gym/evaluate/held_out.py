"""The rows that a run held out, or those of a file: by answers, by pairs, and by their loss.

Rows with an answer or tests are graded by a reward, other rows by the text of the answer that they
have, or by its calls of tools. Of pairs the better answer should be the likelier one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.gym.chat.rows import question_of
from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.config.rollouts import LIVE_REWARD
from zoo.gym.data import Record, fingerprint, read_dataset
from zoo.gym.data.records import ANSWERABLE
from zoo.gym.data.rows import as_chat
from zoo.gym.errors import InputError
from zoo.gym.evaluate.grading import by_choice, by_loss, by_reward, range_of
from zoo.gym.evaluate.items import Grade, Item, Measure
from zoo.gym.evaluate.sources import Contender
from zoo.gym.evaluate.tasks.tools import TOOLS, same_calls
from zoo.gym.humanize import counted
from zoo.gym.measure.rows import spread
from zoo.gym.rewards import Task, load
from zoo.gym.rewards.auto import has_choice
from zoo.gym.train.measuring import held_out_records, rows_of_run, stored_fingerprint
from zoo.gym.train.rollouts import task_of_record

if TYPE_CHECKING:
    from zoo.gym.config import TrainConfig
    from zoo.gym.data.units import Example

ANSWER_TOKENS = 256
"""The most tokens of an answer, unless the user or the run says otherwise."""

SAME_TEXT = {"kind": "exact", "part": "whole"}
"""The reward of rows whose answer is a text: 1 for the same text."""

_OF_MODELS = frozenset({"judge", "model", "live"})
"""Kinds of rewards that a measurement does not load: the row's answer is compared instead."""


@dataclass(frozen=True)
class Rows:
    """Rows that are measured.

    Attributes:
        name: of the measures, and of their files.
        title: what a report calls them.
        digest: identifies the data.
        records: the rows.
        limit: the most that are measured, evenly spaced; None is all.
        max_new_tokens: the most tokens of an answer.
        reward: what the run graded with; None if nothing did.
    """

    name: str
    title: str
    digest: str
    records: Sequence[Record]
    limit: int | None
    max_new_tokens: int
    reward: object = None

    def numbered(self, *kinds: str) -> list[tuple[int, Record]]:
        """Returns the rows of some kinds with their numbers, from 1."""
        return [pair for pair in enumerate(self.records, 1) if pair[1].kind in kinds]

    def measures(self) -> list[Measure]:
        """Returns how they are measured by answers, with a note on those that are not."""
        kinds = (_rewarded(self), _written(self), _called(self), _paired(self))
        every = [measure for measure in kinds if measure is not None]
        graded = {item.row for measure in every for item in measure.items}
        left = counted(len(self.records) - len(graded), "row")
        note = f"{self.title}: {left} left out: no answer to compare with"
        measures = [self.limited(measure) for measure in every]
        if measures and len(graded) < len(self.records):
            measures[0] = replace(measures[0], notes=(note,))
        return measures

    def limited(self, measure: Measure) -> Measure:
        """Returns a measure of at most as many rows as the limit says."""
        if self.limit is None:
            return measure
        return replace(measure, items=tuple(spread(measure.items, self.limit)))

    def measure(
        self,
        items: Sequence[Item],
        grade: Grade,
        graded_by: str,
        how: Literal["generate", "choices", "loss"] = "generate",
        ending: str = "",
    ) -> Measure | None:
        """Returns the measure of some of the rows; None of no row.

        Args:
            items: the rows.
            grade: scores answers.
            graded_by: how it does, in words.
            how: see `Measure`.
            ending: what the name and the title end with, such as `answers`.
        """
        if not items:
            return None
        return Measure(
            name="-".join(filter(None, (self.name, ending.partition(" ")[0]))),
            title=", ".join(filter(None, (self.title, ending))),
            items=tuple(items),
            how=how,
            grade=grade,
            graded_by=graded_by,
            digest=self.digest,
            max_new_tokens=self.max_new_tokens,
        )


def measures_of_run(
    contender: Contender,
    limit: int | None,
    max_new_tokens: int | None,
    learners: tuple[str, ...] = (),
) -> list[Measure]:
    """Returns how models are measured on the rows that a run held out.

    Args:
        contender: the result of the run.
        limit: the most rows; None is all.
        max_new_tokens: the most tokens of an answer; None is as the run sampled.
        learners: see `learners_of`.

    Raises:
        InputError: it held out no row, or its data has changed.
    """
    run, tuned, base = contender.run, contender.tuned, contender.base
    assert run is not None
    assert tuned is not None
    assert tuned.config is not None
    assert base is not None
    config = tuned.config
    records = held_out_records(run.folder, config)
    if isinstance(records, str) or not records:
        reason = records if isinstance(records, str) else "expected held-out rows, got none"
        raise InputError(
            f"{run.id}: {reason}",
            hint="--tasks NAME measures on a benchmark, --data FILE on rows of yours",
            code="evaluate.no_rows",
        )
    tokens = max_new_tokens or getattr(config, "max_completion_length", None) or ANSWER_TOKENS
    digest = f"{stored_fingerprint(run.folder) or ''}"
    title = f"held-out rows of {run.id}"
    rows = Rows("held-out", title, digest, records, limit, tokens, _reward_of(config))
    examples = rows_of_run(run.folder, config, base).examples
    measures = [*rows.measures(), *_loss(rows, examples, base)]
    if not measures:
        raise InputError(
            f"{run.id}: expected held-out rows with answers, got {counted(len(records), 'row')} "
            "without",
            hint="--tasks NAME measures on a benchmark, --data FILE on rows of yours",
            code="evaluate.no_rows",
        )
    return [replace(measure, learners=learners) for measure in measures]


def measures_of_file(path: Path, limit: int | None, max_new_tokens: int | None) -> list[Measure]:
    """Returns how models are measured on the rows of a file, by answers.

    Raises:
        InputError: none of its rows can be asked and graded.
    """
    dataset = read_dataset([path], kinds=ANSWERABLE)
    name, digest = path.name.partition(".")[0], fingerprint([path])
    tokens = max_new_tokens or ANSWER_TOKENS
    rows = Rows(name, f"rows of {path.name}", digest, dataset.records, limit, tokens)
    measures = rows.measures()
    if not measures:
        raise InputError(
            f"{path}: expected rows with an answer to compare with, got none",
            code="evaluate.no_rows",
        )
    unread = counted(len(dataset.problems), "row")
    problems = [f"{unread} left out: {problem}" for problem in dataset.problems[:1]]
    notes = (*dataset.notes, *problems, *measures[0].notes)
    return [replace(measures[0], notes=notes), *measures[1:]]


def _reward_of(config: "TrainConfig") -> object:
    """Returns the reward that a run graded with, if it is one that can be loaded here."""
    spec: object = getattr(config, "reward", None)
    if spec is None or spec == LIVE_REWARD:
        return None
    return None if {part.kind for part in parse_spec(spec)} & _OF_MODELS else spec


def _rewarded(rows: Rows) -> Measure | None:
    """Returns the measure of prompts by the run's reward, else by the one that fits the rows."""
    tasks = [(number, task_of_record(record)) for number, record in rows.numbered("prompt")]
    spec = "auto" if rows.reward is None else rows.reward
    usable = tasks
    if spec == "auto":
        usable = [(number, task) for number, task in tasks if has_choice(task)]
    if not usable:
        return None
    with load(spec, [task for _, task in usable] if spec == "auto" else []) as reward:
        usable = [(number, task) for number, task in usable if reward.missing(task) is None]
        chosen = reward.description.startswith(reward.name)
        graded_by = reward.description if chosen else f"{reward.name}: {reward.description}"
    items = [Item(number, task) for number, task in usable]
    low, high = range_of(spec)
    if (low, high) != (0.0, 1.0):
        graded_by += f"; {low:g} counts as 0 %, {high:g} as 100 %"
    if any(part.kind == "function" for part in parse_spec(spec)):
        graded_by += "; scores of a function are cut to 0 to 1"
    return rows.measure(items, by_reward(spec), graded_by)


def _written(rows: Rows) -> Measure | None:
    """Returns the measure of chats and completions: whether an answer is that of the row."""
    items: list[Item] = []
    for number, record in rows.numbered("chat", "completion"):
        question = question_of(number, record)
        if not question.problem and isinstance(question.reference, str):
            task = Task(question.turns, question.reference, tools=question.tools)
            items.append(Item(number, task))
    graded_by = "exact: 1 if the answer is the row's text, else 0"
    return rows.measure(items, by_reward(SAME_TEXT), graded_by, ending="answers")


def _called(rows: Rows) -> Measure | None:
    """Returns the measure of chats that go on with calls of tools: whether they are the same."""
    items: list[Item] = []
    for number, record in rows.numbered("chat"):
        question, turns = question_of(number, record), as_chat(record)
        if question.problem or not question.tools or len(question.turns) == len(turns):
            continue
        if calls := turns[len(question.turns)].calls:
            answer = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
            items.append(Item(number, Task(question.turns, answer, tools=question.tools)))
    return rows.measure(items, same_calls, TOOLS.graded_by, ending="calls of tools")


def _paired(rows: Rows) -> Measure | None:
    """Returns the measure of pairs: whether the better answer is the likelier one.

    A pair is left out if one of its answers is a call, or several turns: a text is scored.
    """
    items: list[Item] = []
    for number, record in rows.numbered("pair"):
        better, worse = (as_chat(side) for side in record.sides)
        choices = (better[-1].content, worse[-1].content)
        if all(choices) and better[:-1] == worse[:-1]:
            task = Task(better[:-1], tools=record.sides[0].tools)
            items.append(Item(number, task, choices=choices, right=(0,)))
    graded_by = "1 if the better answer is the likelier one, else 0"
    return rows.measure(items, by_choice, graded_by, "choices", "pairs")


def _loss(rows: Rows, examples: "Sequence[Example]", base: Path) -> list[Measure]:
    items = [
        Item(number, Task(()), example=example)
        for number, example in enumerate(examples, 1)
        if example.mask.any()
    ]
    measure = rows.measure(items, by_loss, "less is better", "loss", "loss")
    return [] if measure is None else [replace(rows.limited(measure), tokenizer=base)]


def learners_of(contender: Contender, sources: Sequence[Contender]) -> tuple[str, ...]:
    """Returns the names of the fine-tunes that may have learned the rows that a run held out.

    Those are all but runs that held out the same rows.
    """
    tuned = [each for each in sources if each.tuned is not None or each.lora is not None]
    if tuned == [contender]:
        return ()
    rows = _held_out_by(contender)
    rivals = [each for each in tuned if each != contender]
    return tuple(each.name for each in rivals if not rows <= _held_out_by(each))


def _held_out_by(contender: Contender) -> frozenset[Record]:
    """Returns the rows that the run of a source held out; none if they are not known."""
    run, tuned = contender.run, contender.tuned
    if run is None or tuned is None:
        return frozenset()
    try:
        config = tuned.config
    except InputError:  # the run learned lessons, or its settings are damaged
        return frozenset()
    records = () if config is None else held_out_records(run.folder, config)
    return frozenset() if isinstance(records, str) else frozenset(records)
