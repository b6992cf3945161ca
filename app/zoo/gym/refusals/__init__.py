"""What a model refuses: 60 harmful and 60 harmless prompts, asked greedily and judged by a rule.

The prompts in `texts` are ours. A figure says how many of these prompts got an answer that begins
with a refusal, and nothing about other prompts or about how safe a model is.
"""

from zoo.gym.refusals.detector import is_refusal
from zoo.gym.refusals.interval import wilson
from zoo.gym.refusals.measurement import PromptCounts, Unmeasured, measure, prompt_counts
from zoo.gym.refusals.prompts import prompts_digest

__all__ = [
    "PromptCounts",
    "Unmeasured",
    "is_refusal",
    "measure",
    "prompt_counts",
    "prompts_digest",
    "wilson",
]
