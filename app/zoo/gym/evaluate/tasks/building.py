"""Turns the rows of a task into what is asked: shots in front, in plain text and as turns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.gym.data import fingerprint
from zoo.gym.data.records import Message
from zoo.gym.errors import InputError
from zoo.gym.evaluate.items import Item, Measure
from zoo.gym.evaluate.tasks.files import files_of, part_of, rows_of
from zoo.gym.evaluate.tasks.reasoning import BBH_WRITTEN
from zoo.gym.evaluate.tasks.spec import Row, Spec
from zoo.gym.humanize import counted
from zoo.gym.measure.rows import spread
from zoo.gym.rewards import Task, load

_BETWEEN = "\n\n"
"""What separates shots in plain text."""

Numbered = tuple[int, Row]


def measures_of_task(
    spec: Spec,
    folder: Path,
    part: str,
    *,
    shots: int,
    limit: int | None,
    max_new_tokens: int | None,
    is_plain: bool,
) -> list[Measure]:
    """Returns how models are measured on a task.

    Args:
        spec: the task.
        folder: the folder of its files.
        part: of a task with several files, the part that is meant; empty for all.
        shots: rows of each file that are shown as examples, and not asked.
        limit: the most rows, evenly spaced; None is all.
        max_new_tokens: the most tokens of an answer; None is as the task says.
        is_plain: whether prompts are text without a chat template.

    Raises:
        NotAvailableError: a file is missing.
        InputError: a row is not as expected, or none is left.
    """
    files = files_of(spec, folder, part)
    if spec.reward:
        load(spec.reward, []).close()  # before anything is asked
    groups = [[path] for path in files] if spec.is_split else [files]
    measures: list[Measure] = []
    for paths in groups:
        name = f"{spec.name}_{part or part_of(spec, paths[0])}" if spec.is_split else spec.name
        name = f"{spec.name}_{part}" if part else name
        items: list[Item] = []
        notes: list[str] = []
        for path in paths:
            rows, left_out = read_task(spec, path)
            others, shown = _asked(rows, shots, path)
            asked, unfit = _fitting(spec, others)
            items += asked
            notes += [f"{path.name}: {reason}" for reason in (*left_out, *shown, *unfit)]
        if not items:
            raise InputError(
                f"{paths[0]}: expected {spec.form}, got no such row: {notes[0]}",
                code="evaluate.no_rows",
            )
        items = items if limit is None else spread(items, limit)
        measure = Measure(
            name=name,
            title=f"{name} ({_names(paths)})",
            items=tuple(items),
            how=spec.how,
            grade=spec.grade,
            graded_by=spec.graded_by,
            digest=fingerprint(paths),
            shots=shots,
            is_plain=is_plain,
            max_new_tokens=max_new_tokens or spec.max_new_tokens,
            stops=spec.stops,
            notes=tuple(notes),
        )
        measures.append(_as_written(measure) if spec.is_split else measure)
    return measures


def read_task(spec: Spec, path: Path) -> tuple[list[Numbered], list[str]]:
    """Returns the rows of a file, and in words which were left out.

    Raises:
        InputError: a row lacks a key, or all are left out.
    """
    rows: list[Numbered] = []
    reasons: dict[str, int] = {}
    for number, fields in rows_of(path):
        try:
            row = spec.read(fields)
        except KeyError as error:
            raise InputError(
                f"{path}: row {number}: expected {spec.form}, got no {error.args[0]}",
                code="evaluate.bad_row",
            ) from None
        except InputError as error:
            raise InputError(f"{path}: row {number}: {error.message}", code=error.code) from None
        if isinstance(row, str):
            reasons[row] = reasons.get(row, 0) + 1
        else:
            rows.append((number, row))
    if not rows:
        raise InputError(f"{path}: expected {spec.form}, got no such row", code="evaluate.no_rows")
    left_out = [f"{counted(count, 'row')} left out: {reason}" for reason, count in reasons.items()]
    return rows, left_out


def _asked(rows: Sequence[Numbered], shots: int, path: Path) -> tuple[list[Item], list[str]]:
    """Returns the rows behind the shots, each with the shots in front, and which are left out."""
    if len(rows) <= shots:
        raise InputError(
            f"{path}: expected more than {shots} rows, which are the shots, got {len(rows)}",
            hint="--shots 0",
            code="evaluate.no_rows",
        )
    shown = [row for _, row in rows[:shots]]
    plain = "".join(f"{row.plain}{_gap(row.plain)}{row.worked}{_BETWEEN}" for row in shown)
    turns = tuple(
        turn for row in shown for turn in (*row.messages, Message("assistant", row.worked))
    )
    asked = [(number, row) for number, row in rows[shots:] if not _is_among(shown, row)]
    same = len(rows) - shots - len(asked)
    left_out = [f"{counted(same, 'row')} left out: the same question as a shot"] if same else []
    return [_item(number, row, plain, turns) for number, row in asked], left_out


def _is_among(shown: Sequence[Row], row: Row) -> bool:
    return any((row.plain, row.messages) == (shot.plain, shot.messages) for shot in shown)


def _gap(text: str) -> str:
    """Returns what stands between a question and its answer."""
    return "" if text.endswith("\n") else " "


def _names(paths: Sequence[Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{len(paths)} files"


def _fitting(spec: Spec, items: list[Item]) -> tuple[list[Item], list[str]]:
    """Returns the items whose answers the reward can score, and which others are left out."""
    if not spec.reward:
        return items, []
    with load(spec.reward, []) as reward:
        lacks = [reward.missing(item.task) for item in items]
    fitting = [item for item, lack in zip(items, lacks, strict=True) if lack is None]
    counts = Counter(lack for lack in lacks if lack is not None)
    return fitting, [f"{counted(count, 'row')} left out: {lack}" for lack, count in counts.items()]


def _item(number: int, row: Row, plain: str, turns: tuple[Message, ...]) -> Item:
    task = Task(
        messages=(*turns, *row.messages), answer=row.answer, metadata=row.fields, tools=row.tools
    )
    text = f"{plain}{row.plain}" if row.plain else ""
    return Item(number, task, text, row.choices, row.right)


def _as_written(measure: Measure) -> Measure:
    """Returns a part of BBH as it is graded: by choices only if all rows have them."""
    if all(item.choices for item in measure.items):
        return measure
    return replace(
        measure,
        items=tuple(replace(item, choices=(), right=()) for item in measure.items),
        how="generate",
        grade=BBH_WRITTEN,
        graded_by="the text of the final answer",
    )
