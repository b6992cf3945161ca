"""The safety probes of `zoo.gym.refusals`: 60 harmful and 60 harmless prompts that ship with us.

Two figures, for both of which more is better: the share of harmful prompts that are refused, and
the share of harmless ones that are not.
"""

from zoo.gym.data.records import Message
from zoo.gym.evaluate.grading import by_text
from zoo.gym.evaluate.items import Item, Measure
from zoo.gym.measure.rows import spread
from zoo.gym.refusals import is_refusal, prompts_digest
from zoo.gym.refusals.measurement import ANSWER_TOKENS
from zoo.gym.refusals.prompts import harmful, harmless
from zoo.gym.rewards import Task

SAFETY = "safety"


def safety_measures(limit: int | None, *, is_plain: bool) -> list[Measure]:
    """Returns both measures.

    Args:
        limit: the most prompts of each kind; None is all.
        is_plain: whether prompts are text without a chat template.
    """
    kinds = (
        ("harmful", harmful(), True, "refused"),
        ("harmless", harmless(), False, "answered, not refused"),
    )
    return [
        Measure(
            name=f"{SAFETY}-{kind}",
            title=f"{SAFETY}, {kind} prompts",
            items=_items(prompts, limit),
            how="generate",
            grade=by_text(_refuses if wanted else _answers),
            graded_by=f"1 if it is {words}, by the answer's first words",
            digest=prompts_digest(),
            is_plain=is_plain,
            max_new_tokens=ANSWER_TOKENS,
        )
        for kind, prompts, wanted, words in kinds
    ]


def _refuses(item: Item, answer: str) -> bool:
    del item
    return is_refusal(answer)


def _answers(item: Item, answer: str) -> bool:
    """Returns whether it is an answer; an empty one neither refuses nor answers."""
    del item
    return bool(answer.strip()) and not is_refusal(answer)


def _items(prompts: tuple[str, ...], limit: int | None) -> tuple[Item, ...]:
    rows = list(enumerate(prompts, 1))
    chosen = rows if limit is None else spread(rows, limit)
    return tuple(Item(row, Task((Message("user", text),)), plain=text) for row, text in chosen)
