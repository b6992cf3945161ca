"""Labels of tasks without a known answer: what most answers without lessons say.

The label of a task is drawn once, before anything is learned, and stays: lessons that make answers
alike, and wrong, gain nothing by it. Lessons that fix what most answers get wrong lose by it, so a
gain is one of consistency, not of knowledge; a library says that it was measured like this.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.learning.answers import Answers
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.answers.exact import normalised
from zoo.gym.rewards.answers.final import final_answer
from zoo.gym.rewards.reward import Task

DESCRIPTION = "1 if the final answer is what most answers without lessons say, else 0"
"""What the reward scores, for people."""

COMPARES = "answer"
"""The reward that compares answers with labels."""


def label_split(split: Split, answers: Answers, draws: int, sampling: Sampling) -> Split:
    """Returns the tasks that most answers agree on, with what they say as the answer.

    Raises:
        GuardError: a part has no task left.
        GymError: see `Caller.ask`.
    """
    tasks = [*split.train, *split.gate, *split.test]
    numbered = dict(enumerate(tasks))
    asks = answers.asks(("label", 0, 0), numbered, draws, Library(), sampling)
    texts = [reply.text for reply in answers.caller.ask(answers.model, asks)]
    labels = [agreed(texts[n : n + draws]) for n in range(0, len(texts), draws)]
    if lost := labels.count(None):
        answers.caller.tell(
            f"{lost} of {len(tasks)} tasks are left out: most answers to them do not agree"
        )
    rest = iter(labels)
    parts: list[tuple[Task, ...]] = []
    for name, part in (("train", split.train), ("gate", split.gate), ("test", split.test)):
        pairs = zip(part, rest)  # noqa: B905 - the labels of the next parts follow
        parts.append(tuple(replace(task, answer=label) for task, label in pairs if label))
        if part and not parts[-1]:
            raise GuardError(
                f"{name}: expected tasks whose answers mostly agree, got none of {len(part)}",
                hint="rows with answers, or reward=judge, measure more",
                code="experience.no_majority",
            )
    return Split(*parts)


def agreed(texts: Sequence[str]) -> str | None:
    """Returns the final answer of more than half of the texts, None if there is none.

    At least two must agree; the shortest of their spellings is returned.
    """
    finals = [final_answer(text) for text in texts]
    counts = Counter(filter(None, map(normalised, finals)))
    most, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < 2 or 2 * count <= len(texts):
        return None
    same = [text for text in finals if normalised(text) == most]
    return min(same, key=lambda text: (len(text), text))
