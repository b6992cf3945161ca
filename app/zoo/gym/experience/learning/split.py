"""Splits tasks: those that teach, those that decide, and those that test at the end, once.

Equal texts stay together, so that no task is in two parts. Texts are equal that differ only in
white space, in case, or in the encoding of the same characters.
"""

import random
import unicodedata
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain

from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import task_hash
from zoo.gym.rewards.reward import Task

LEAST_TASKS = 40
"""With fewer different texts and no file for the gate there is no gate, and nothing is proven."""

_ENDS = {
    (False, False): (0.5, 0.75),
    (True, False): (2 / 3, 2 / 3),
    (False, True): (2 / 3, 1.0),
    (True, True): (1.0, 1.0),
}
"""The shares of all tasks where the training part and the gate end; the rest is the test.

The key is whether the gate and the test have files of their own.
"""


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
    """Returns a normalised text: tasks that share it are no independent evidence."""
    turns = (f"{turn.role}: {' '.join(turn.content.split())}" for turn in task.messages)
    folded = unicodedata.normalize("NFC", "\n\n".join(turns)).casefold()
    return unicodedata.normalize("NFC", folded)


def source_of(task: Task) -> str:
    """Returns the hash of a task, and of all with the same text, in a library."""
    return task_hash(same_text(task))


def is_among(task: Task, sources: Container[str]) -> bool:
    """Returns whether hashes of tasks, also those of older libraries, have that of a task."""
    return source_of(task) in sources or task_hash(task_text(task)) in sources


def split_tasks(
    tasks: Sequence[Task], seed: int, gate: Sequence[Task] = (), test: Sequence[Task] = ()
) -> Split:
    """Returns the parts of the tasks; the same for the same tasks and seed.

    `gate` and `test` are tasks of files of their own, instead of shares. A gate's file may be
    sorted, but early looks must see all kinds, so it is shuffled.

    Raises:
        InputError: there are no tasks, or a task of the gate or the test is also another part's.
    """
    if not tasks:
        raise InputError("tasks: expected at least one task, got none", code="experience.no_tasks")
    _refuse_shared(tasks, gate, "gate")
    _refuse_shared([*tasks, *gate], test, "test")
    groups = _shuffled(tasks, f"split {seed}")
    gate = _flat(_shuffled(gate, f"gate {seed}"))
    if len(groups) < LEAST_TASKS and not gate:
        return Split(_flat(groups), (), tuple(test))
    first, second = (round(end * len(groups)) for end in _ENDS[bool(gate), bool(test)])
    return Split(
        _flat(groups[:first]),
        gate or _flat(groups[first:second]),
        tuple(test) or _flat(groups[second:]),
    )


def _shuffled(tasks: Sequence[Task], seed: str) -> list[list[Task]]:
    """Returns tasks grouped by text, in an order that does not depend on that of a file."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(same_text(task), []).append(task)
    texts = sorted(groups)
    random.Random(seed).shuffle(texts)  # noqa: S311
    return [groups[text] for text in texts]


def _flat(groups: Sequence[Sequence[Task]]) -> tuple[Task, ...]:
    return tuple(chain.from_iterable(groups))


def _refuse_shared(other_parts: Sequence[Task], tasks: Sequence[Task], name: str) -> None:
    texts = set(map(same_text, other_parts))
    shared = [task for task in tasks if same_text(task) in texts]
    if shared:
        raise InputError(
            f"{name}: expected tasks of their own, got {len(shared)} that are in another part too, "
            f"first {shared[0].source or 'one without a place'}",
            code="experience.shared_tasks",
        )
