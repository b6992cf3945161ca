"""Splits tasks: those that teach, those that decide, and those that test at the end, once.

Equal texts stay together, so that no task is in two parts. Texts are equal that differ in white
space, in case, and in ways to encode the same characters alone.
"""

import random
import unicodedata
from collections.abc import Container, Sequence, Set
from dataclasses import dataclass

from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import task_hash
from zoo.gym.rewards.reward import Task

LEAST_TASKS = 40
"""With fewer different texts and no file for the gate there is no gate, and nothing is proven."""

SHARES = (0.5, 0.25)
"""Of all tasks: those that teach, and those of the gate; the rest is the test."""


@dataclass(frozen=True)
class Split:
    """The parts.

    Attributes:
        train: tasks that the teacher sees answers to.
        gate: tasks that decide whether edits are kept; empty for no gate.
        test: tasks that measure the result; empty for no test.
    """

    train: tuple[Task, ...]
    gate: tuple[Task, ...] = ()
    test: tuple[Task, ...] = ()


def task_text(task: Task) -> str:
    """Returns all turns of a task as they are."""
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in task.messages)


def contents(task: Task) -> str:
    """Returns the words of a task, without the roles of its turns."""
    return "\n\n".join(turn.content for turn in task.messages)


def same_text(task: Task) -> str:
    """Returns what two tasks have in common that are no evidence apart from each other."""
    turns = (f"{turn.role}: {' '.join(turn.content.split())}" for turn in task.messages)
    folded = unicodedata.normalize("NFC", "\n\n".join(turns)).casefold()
    return unicodedata.normalize("NFC", folded)


def source_of(task: Task) -> str:
    """Returns the hash that stands for a task, and for all that are the same, in a library."""
    return task_hash(same_text(task))


def is_among(task: Task, sources: Container[str]) -> bool:
    """Returns whether hashes of tasks, also those of older libraries, have that of a task."""
    return source_of(task) in sources or task_hash(task_text(task)) in sources


def split_tasks(
    tasks: Sequence[Task], seed: int, gate: Sequence[Task] = (), test: Sequence[Task] = ()
) -> Split:
    """Returns the parts of the tasks; the same for the same tasks and seed.

    Args:
        tasks: all tasks.
        seed: another one splits otherwise.
        gate: tasks of a file of their own, in the place of a share. The file may be sorted, but
            early looks must see all kinds, so they are shuffled.
        test: the same for the test.

    Raises:
        InputError: there are no tasks, or a task of the gate or the test is also another part's.
    """
    groups = _groups(tasks)
    if not groups:
        raise InputError("tasks: expected at least one task, got none")
    _refuse_shared(groups.keys(), gate, "gate")
    _refuse_shared({*groups, *map(same_text, gate)}, test, "test")
    texts = _shuffled(groups, f"split {seed}")
    gate_groups = _groups(gate)
    gate = _tasks(_shuffled(gate_groups, f"gate {seed}"), gate_groups)
    shares = list(SHARES)
    if len(texts) < LEAST_TASKS and not gate:
        return Split(_tasks(texts, groups), (), tuple(test))
    if gate:
        shares[1] = 0.0
    ends = [shares[0], sum(shares)]
    if test:
        ends = [end / sum(shares) for end in ends]
    elif gate:
        ends = [2 / 3, 2 / 3]
    first, second = (round(end * len(texts)) for end in ends)
    own_gate, own_test = _tasks(texts[first:second], groups), _tasks(texts[second:], groups)
    return Split(_tasks(texts[:first], groups), gate or own_gate, tuple(test) or own_test)


def _groups(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(same_text(task), []).append(task)
    return groups


def _shuffled(groups: dict[str, list[Task]], seed: str) -> list[str]:
    """Returns the texts of tasks in an order that does not depend on that of a file."""
    texts = sorted(groups)
    random.Random(seed).shuffle(texts)  # noqa: S311
    return texts


def _tasks(texts: Sequence[str], groups: dict[str, list[Task]]) -> tuple[Task, ...]:
    return tuple(task for text in texts for task in groups[text])


def _refuse_shared(known: Set[str], given: Sequence[Task], name: str) -> None:
    shared = [task for task in given if same_text(task) in known]
    if shared:
        raise InputError(
            f"{name}: expected tasks of their own, got {len(shared)} that are in another part too, "
            f"first {shared[0].source or 'one without a place'}"
        )
