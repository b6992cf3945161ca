"""Reads tasks from files, and stores those of a run in its folder."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.reading.keys import unread_note
from zoo.gym.data.records import Message
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.experience import store
from zoo.gym.experience.learning.split import Split, is_among, same_text, source_of
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.settings import LIVE
from zoo.gym.experience.sharing.limits import alike
from zoo.gym.files import write_beside
from zoo.gym.jobs.run import is_experience, run_folders
from zoo.gym.rewards.code.row_tests import has_tests
from zoo.gym.rewards.reward import Task
from zoo.gym.train.rollouts import task_of_record

TASKS_FILE = "tasks.jsonl"

TASKS_KEY = "tasks_sha256"
"""In `env.json` of a run: the digest of its tasks."""

_READ_ROWS = frozenset({"function", LIVE, "tests", "environment"})
"""The kinds of rewards that read the other keys of a row."""

_PARTS = ("train", "gate", "test")


def read_tasks(paths: Sequence[Path]) -> tuple[list[Task], list[str]]:
    """Returns the tasks in files and what should be known about the files.

    Rows are those of methods with rewards: a prompt, and an answer if the reward needs one.

    Raises:
        NotAvailableError: a file is missing.
        InputError: a file has no usable row, or a row calls tools.
    """
    dataset = read_dataset(paths, kinds=frozenset({"prompt"}))
    tasks = list(map(task_of_record, dataset.records))
    for task in tasks:
        if task.tools or any(turn.calls or turn.role == "tool" for turn in task.messages):
            raise InputError(
                f"{task.source}: expected a task in words, got one with tools",
                code="experience.task_with_tools",
            )
    return tasks, [*dataset.notes, *(f"left out: {problem}" for problem in dataset.problems)]


def unread(tasks: Sequence[Task], kinds: Set[str]) -> list[str]:
    """Returns a sentence about keys of rows that neither a prompt nor the reward reads, if any."""
    if kinds & _READ_ROWS or ("auto" in kinds and any(map(has_tests, tasks))):
        return []
    counts = Counter(key for task in tasks for key in task.metadata)
    return [unread_note("tasks", counts)] if counts else []


def seen_by(items: Sequence[Item], seen: Iterable[str] = ()) -> frozenset[str]:
    """Returns the hashes of the tasks that shaped lessons.

    Those are their sources, those of their library, and the tasks that taught or decided in runs of
    this user which kept a lesson or an ancestor of it. The tasks of a run's test decided nothing.
    """
    hashes = {*seen, *(source for item in items for source in item.sources)}
    ids = {item_id for item in items for item_id in (item.id, *item.parents)}
    for run in run_folders():
        path = run.result / "library.json"
        if not is_experience(run) or not path.is_file():
            continue
        with suppress(GymError, OSError):  # a damaged run is no reason to refuse a measurement
            library, _ = read_library(path)
            if ids & {item.id for item in library.items}:
                split = read_split(run.folder)
                hashes |= set(map(source_of, (*split.train, *split.gate)))
    return frozenset(hashes)


def remembered(library: Library, known: Library | None) -> Library:
    """Returns lessons that were read from a text with what is stored about the tasks behind them.

    A lesson that a stored library has, was changed from one, or says the same as one, has its
    sources; all tasks of those libraries and their runs count as seen.

    `known` is the version that they follow, if it is another one.
    """
    stored = [*store.every(), *([known] if known else [])]
    origins = list(known.items) if known else []
    seen = {*known.seen} if known else set[str]()
    items: list[Item] = []
    for item in library.items:
        sources: set[str] = set()
        for other in stored:
            same = [
                old
                for old in other.items
                if old.id in (item.id, *item.parents) or alike(old.text, item.text)
            ]
            origins += same
            seen |= {*other.seen} if same else set()
            sources |= {source for old in same for source in old.sources}
        items.append(replace(item, sources=(*item.sources, *sorted(sources - {*item.sources}))))
    seen |= seen_by(origins)
    return replace(library, items=tuple(items), seen=(*library.seen, *seen))


def without_seen(
    tasks: Sequence[Task], seen: Set[str], least: int
) -> tuple[list[Task], str | None]:
    """Returns the tasks that can measure lessons, and a sentence if others are left out.

    `seen` are hashes of `seen_by`; `least` is the fewest different tasks that are enough.

    Raises:
        InputError: tasks are left out, and too few remain.
    """
    rest = [task for task in tasks if not is_among(task, seen)]
    count = len(tasks) - len(rest)
    if not count:
        return rest, None
    why = f"{count} of {len(tasks)} tasks are left out: the lessons were learned from them"
    if len({same_text(task) for task in rest}) < least:
        raise InputError(
            f"tasks: expected at least {least} that the lessons were not learned from, got "
            f"{len(rest)}: {why}",
            hint="measure on tasks that the run which learned the lessons did not have",
            code="experience.seen_tasks",
        )
    return rest, why


def write_split(folder: Path, split: Split) -> None:
    """Stores the tasks of a run.

    Raises:
        StorageError: the folder cannot be written.
        InputError: a row has a value that JSON cannot represent.
    """
    parts = zip(_PARTS, (split.train, split.gate, split.test), strict=True)
    lines = [task_line(part, task) for part, tasks in parts for task in tasks]
    write_beside(folder / TASKS_FILE, "".join(lines), sync=True)


def tasks_digest(folder: Path) -> str:
    """Returns the SHA-256 of the tasks of a run.

    Raises:
        NotAvailableError: they are missing.
    """
    return hashlib.sha256(_content(folder / TASKS_FILE)).hexdigest()


def check_same_tasks(folder: Path, noted: object) -> None:
    """Refuses tasks other than those that a run began with.

    `noted` is their digest in `env.json`; None if the run noted none.

    Raises:
        NotAvailableError: they are missing.
        InputError: they were changed.
    """
    if noted is not None and tasks_digest(folder) != noted:
        raise InputError(
            f"{folder / TASKS_FILE}: expected the tasks that run {folder.name} began with, got a "
            "changed file",
            hint="restore the file, or start a new run",
            code="experience.changed_tasks",
        )


def read_split(folder: Path) -> Split:
    """Returns the tasks of a run.

    Raises:
        NotAvailableError: they are missing.
        InputError: the file is damaged.
    """
    path = folder / TASKS_FILE
    parts: dict[str, list[Task]] = {part: [] for part in _PARTS}
    for number, line in enumerate(_content(path).splitlines(), 1):
        try:
            fields = cast("dict[str, Any]", json.loads(line))
            turns = (Message(str(role), str(content)) for role, content in fields["turns"])
            answer, metadata = fields["answer"], dict(fields["metadata"])
            task = Task(tuple(turns), answer, fields["reference"], metadata, fields["source"])
            parts[fields["part"]].append(task)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(
                f"{path}:{number}: damaged: expected a task", code="experience.damaged_tasks"
            ) from None
    return Split(*(tuple(parts[part]) for part in _PARTS))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NotAvailableError(
            f"{path}: expected the tasks of the run, got nothing", code="experience.no_tasks_file"
        ) from None


def task_line(part: str, task: Task) -> str:
    """Returns a task as a line of the file.

    Raises:
        InputError: it has a value that JSON cannot represent.
    """
    fields = {
        "part": part,
        "source": task.source,
        "turns": [[turn.role, turn.content] for turn in task.messages],
        "answer": task.answer,
        "reference": task.reference,
        "metadata": dict(task.metadata),
    }
    try:
        return json.dumps(fields) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{task.source}: expected text, numbers and lists: {error}",
            code="experience.task_values",
        ) from None
