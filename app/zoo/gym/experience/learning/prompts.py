"""What is sent: fixed text and the library first, the task last, so that prompts share a prefix."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zoo.gym.experience.learning.nearest import nearest, shares_words
from zoo.gym.experience.learning.split import contents
from zoo.gym.experience.library.edits import LABEL
from zoo.gym.experience.library.item import MOST_WORDS
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Task

Turns = list[dict[str, str]]

MOST_SHOWN = 4000
"""The characters of one answer that a teacher sees: its start and its end."""

MOST_EDITS = 2
"""How many edits a teacher may propose for one group."""

TEACHER = f"""You improve a list of short lessons that a model reads before it works on tasks.

You get the lessons, one task, and several answers of the model to it, each with its reward. Compare
the better answers with the worse ones and find what made the difference. Then propose at most \
{MOST_EDITS} edits of the lessons that would help with this task and with others like it.

A lesson is one sentence of at most {MOST_WORDS} words: general advice, never the answer to a task.
Do not repeat edits that were rejected before. Edits are
- add: a new lesson as "text", with no "ids"
- modify: the label of one lesson in "ids", its new "text"
- merge: the labels of several lessons in "ids", one "text" for all
- delete: the label of one lesson in "ids"
- none: nothing can be learned here

Reply with JSON alone: {{"edits": [{{"op": "add", "ids": [], "text": "..."}}]}}"""

AGAIN = 'That could not be read. Reply with JSON alone: {"edits": [...]}'


def lessons_for(task: Task, library: Library, top_k: int | None) -> Library:
    """Returns the pinned lessons and those nearest to a task, in the order of the library.

    Near are those that share most words with it (BM25).

    Args:
        task: the task.
        library: all lessons.
        top_k: how many at most that are not pinned; None for all.
    """
    free = [item for item in library.items if not item.pinned]
    if top_k is None or len(free) <= top_k:
        return library
    places = nearest(contents(task), [item.text for item in free], top_k)
    near = {free[place].id for place in places}
    return replace(library, items=tuple(i for i in library.items if i.pinned or i.id in near))


def unmatched(task: Task, library: Library, top_k: int | None) -> str:
    """Returns a sentence if lessons are chosen though none is near to a task; empty otherwise."""
    free = [item for item in library.items if not item.pinned]
    if top_k is None or len(free) <= top_k or shares_words(contents(task), [i.text for i in free]):
        return ""
    return f"no lesson shares a word with it: the prompt has the first {top_k} by their ids"


def task_turns(task: Task, library: Library, system: str) -> Turns:
    """Returns what a model answers: the user's system text, the library, then the task.

    Args:
        task: the task; a system turn of its own stands behind the library.
        library: the lessons.
        system: text for all tasks.
    """
    own = [turn.content for turn in task.messages if turn.role == "system"]
    first = "\n\n".join(filter(None, [system, library.text, *own]))
    turns = [] if not first else [{"role": "system", "content": first}]
    turns += [
        {"role": turn.role, "content": turn.content}
        for turn in task.messages
        if turn.role != "system"
    ]
    return turns


def teacher_turns(
    task: Task, library: Library, answers: Sequence[tuple[str, float]], rejected: Iterable[str]
) -> Turns:
    """Returns what a teacher sees of one group.

    Args:
        task: the group's task.
        library: the lessons as edited so far.
        answers: the answers with their rewards.
        rejected: edits that were tried and did not help, in words.
    """
    lessons = [f"[{item.id[:LABEL]}] {item.text}" for item in library.items]
    refused = [f"- {words}" for words in rejected]
    shown = "\n\n".join(f"{turn.role}: {turn.content}" for turn in task.messages)
    graded = [
        f"Answer {place}, reward {reward:g}:\n{_shortened(text)}"
        for place, (text, reward) in enumerate(answers, 1)
    ]
    parts = ["Lessons:", *(lessons or ["none yet"])]
    parts += ["", "Rejected before:", *refused] if refused else []
    parts += ["", "Task:", shown, "", "\n\n".join(graded)]
    return [
        {"role": "system", "content": TEACHER},
        {"role": "user", "content": "\n".join(parts)},
    ]


def _shortened(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n[{len(text) - MOST_SHOWN:,} characters left out]\n{text[-half:]}"
