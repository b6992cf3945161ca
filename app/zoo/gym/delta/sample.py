"""How many held-out rows a delta is measured on: what a minute or few of this machine allow.

Five passes are made over each row, two of them for the divergence. For zen-nano on one core a pass
over 8,192 tokens takes half a minute.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.data.encode import Example

SMALL_PARAMETERS = 100_000_000
TOKENS, TOKENS_OF_A_SMALL_MODEL = 8192, 262_144


def sampled_rows(
    examples: "Sequence[Example]", parameters: int, most: int | None = None
) -> "Sequence[Example]":
    """Returns the rows to measure on, evenly spaced: the same ones for the same data.

    Args:
        examples: all held-out rows.
        parameters: of the base.
        most: how many rows at most; None takes as many as the budget of tokens has room for, at
            least one.
    """
    from zoo.gym.train.order import spread

    if most is None:
        budget = TOKENS_OF_A_SMALL_MODEL if parameters < SMALL_PARAMETERS else TOKENS
        tokens = sum(len(example.ids) for example in examples)
        most = max(1, budget * len(examples) // max(1, tokens))
    return examples if most >= len(examples) else spread(examples, most)
