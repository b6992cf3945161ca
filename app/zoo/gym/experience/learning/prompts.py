"""The prompts: fixed text and the library first, the task last, so that they share a prefix."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zoo.gym.experience.learning.nearest import nearest, shares_words
from zoo.gym.experience.learning.split import contents, task_text
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

    `top_k` is the most that are not pinned; None for all.
    """
    free = [item for item in library.items if not item.pinned]
    if top_k is None or len(free) <= top_k:
        return library
    near = {free[n].id for n in nearest(contents(task), [i.text for i in free], top_k)}
    return replace(library, items=tuple(i for i in library.items if i.pinned or i.id in near))


def unmatched(task: Task, library: Library, top_k: int | None) -> str:
    """Returns a sentence if lessons are chosen though none is near to a task; empty otherwise."""
    texts = [item.text for item in library.items if not item.pinned]
    if top_k is None or len(texts) <= top_k or shares_words(contents(task), texts):
        return ""
    return f"no lesson shares a word with it: the prompt has the first {top_k} by their ids"


def task_turns(task: Task, library: Library, system: str) -> Turns:
    """Returns the prompt of a model: the user's system text, the library, then the task.

    A task's own system turn comes after the library.
    """
    texts = [turn.content for turn in task.messages if turn.role == "system"]
    first = "\n\n".join(filter(None, [system, library.text, *texts]))
    turns = [(turn.role, turn.content) for turn in task.messages if turn.role != "system"]
    turns = [("system", first), *turns] if first else turns
    return [{"role": role, "content": content} for role, content in turns]


def teacher_turns(
    task: Task, library: Library, answers: Sequence[tuple[str, float]], rejected: Iterable[str]
) -> Turns:
    """Returns what a teacher sees of one group.

    Answers have their rewards; `rejected` are edits that did not help, in words.
    """
    lessons = [f"[{item.id[:LABEL]}] {item.text}" for item in library.items] or ["none yet"]
    refused = [f"- {words}" for words in rejected]
    graded = [
        f"Answer {number}, reward {reward:g}:\n{_shortened(text)}"
        for number, (text, reward) in enumerate(answers, 1)
    ]
    parts = ["Lessons:", *lessons, *(["", "Rejected before:", *refused] if refused else [])]
    parts += ["", "Task:", task_text(task), "", "\n\n".join(graded)]
    return [
        {"role": "system", "content": TEACHER},
        {"role": "user", "content": "\n".join(parts)},
    ]


def _shortened(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n[{len(text) - MOST_SHOWN:,} characters left out]\n{text[-half:]}"
