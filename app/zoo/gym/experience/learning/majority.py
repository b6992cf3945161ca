"""Labels of tasks without a known answer: what most answers without lessons say.

The label of a task is drawn once, before anything is learned, and stays: lessons that make answers
alike, and wrong, gain nothing by it. Lessons that mend what most answers get wrong lose by it,
so that a gain is one of steadiness, not of knowledge; libraries say that they were measured so.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.slot import Ask
from zoo.gym.experience.learning.answers import Answers, slots
from zoo.gym.experience.learning.prompts import task_turns
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.answers.exact import normalised
from zoo.gym.rewards.answers.final import final_answer
from zoo.gym.rewards.reward import Task

MAJORITY = "majority"
"""The name of the reward that needs no answers of rows."""

DESCRIPTION = "1 if the final answer is what most answers without lessons say, else 0"
"""What it scores, for people."""

COMPARES = "answer"
"""The reward that compares answers with labels."""


def label_split(
    split: Split, answers: Answers, draws: int, how: Sampling, tell: Callable[[str], None]
) -> Split:
    """Returns the tasks that most answers agree on, with what they say as the answer.

    Args:
        split: the tasks.
        answers: draws answers of the model.
        draws: answers to each task.
        how: how they are drawn.
        tell: gets how many tasks are left out.

    Raises:
        GuardError: a part has no task left.
        GymError: see `Caller.ask`.
    """
    every = [*split.train, *split.gate, *split.test]
    found = _labels(every, answers, draws, how)
    lost = found.count(None)
    if lost:
        tell(f"{lost} of {len(every)} tasks are left out: most answers to them do not agree")
    labelled = [
        None if label is None else replace(task, answer=label)
        for task, label in zip(every, found, strict=True)
    ]
    first, second = len(split.train), len(split.train) + len(split.gate)
    parts = (labelled[:first], labelled[first:second], labelled[second:])
    kept = [tuple(task for task in part if task is not None) for part in parts]
    for name, part, left in zip(("train", "gate", "test"), parts, kept, strict=True):
        if part and not left:
            raise GuardError(
                f"{name}: expected tasks whose answers mostly agree, got none of {len(part)}",
                hint="rows with answers, or reward=judge, measure more",
            )
    return Split(*kept)


def _labels(tasks: Sequence[Task], answers: Answers, draws: int, how: Sampling) -> list[str | None]:
    where = slots("label", 0, 0, range(len(tasks)), draws)
    drawn = [task for task in tasks for _ in range(draws)]
    asks = [
        Ask(slot, task_turns(task, Library(), answers.system), how)
        for task, slot in zip(drawn, where, strict=True)
    ]
    texts = [reply.text for reply in answers.caller.ask(answers.model, asks)]
    return [agreed(texts[at : at + draws]) for at in range(0, len(texts), draws)]


def agreed(texts: Sequence[str]) -> str | None:
    """Returns the final answer of more than half of the texts, None if there is none.

    At least two must agree. It is written as the shortest of them writes it.
    """
    said = [final_answer(text) for text in texts]
    counts = Counter(filter(None, map(normalised, said)))
    most, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < 2 or 2 * count <= len(texts):
        return None
    same = [text for text in said if normalised(text) == most]
    return min(same, key=lambda text: (len(text), text))
