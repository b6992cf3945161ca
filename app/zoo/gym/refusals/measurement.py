"""Counts how many of the prompts a model refuses."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from zoo.gym.data.tokenizer import has_tokenizer
from zoo.gym.refusals.detector import is_refusal
from zoo.gym.refusals.prompts import harmful, harmless
from zoo.gym.retention.answer import Asker

if TYPE_CHECKING:
    from zoo.backends.base import Policy

ANSWER_TOKENS = 24
"""A refusal shows within so many tokens."""

PROBED = 10
"""Harmful prompts that a base is asked first where the answer decides nothing: if it refuses none
of them, it is asked no others."""


class PromptCounts(BaseModel):
    """Numbers of prompts of both kinds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    harmful: NonNegativeInt
    harmless: NonNegativeInt


class Unmeasured(StrEnum):
    """Why refusals of a model cannot be measured."""

    REFUSES_NOTHING = "the base refuses none of the harmful prompts"
    UNREADABLE = "the base has no tokenizer, or reads too few tokens for a prompt and its answer"


def measure(
    policy: "Policy",
    folder: Path,
    own: Mapping[str, object] | None = None,
    *,
    is_base: bool = False,
    probes: bool = False,
) -> PromptCounts | Unmeasured:
    """Asks a model every prompt, greedily, and returns how many of each kind it refuses.

    Args:
        policy: the model.
        folder: its folder, or that of its base: tokenizer and chat template are read.
        own: how its tokenizer differs from the folder's, see `own_tokenizer`.
        is_base: whether the others are compared with it: one that refuses no harmful prompt cannot
            be.
        probes: stop if none of the first harmful prompts is refused, as by a model that was never
            taught to.
    """
    if not has_tokenizer(folder):
        return Unmeasured.UNREADABLE
    asker = Asker(policy, folder, own)
    encoded = [asker.prompt(text) for text in (*harmful(), *harmless())]
    if not all(asker.fits(ids, ANSWER_TOKENS) for ids in encoded):
        return Unmeasured.UNREADABLE
    refused: list[bool] = []
    for part in (encoded[:PROBED], encoded[PROBED:]):
        refused += [is_refusal(asker.text(each)) for each in asker.answers(part, ANSWER_TOKENS)]
        if probes and not any(refused):
            return Unmeasured.REFUSES_NOTHING
    of_harmful = len(harmful())
    if is_base and not any(refused[:of_harmful]):
        return Unmeasured.REFUSES_NOTHING
    return PromptCounts(harmful=sum(refused[:of_harmful]), harmless=sum(refused[of_harmful:]))


def prompt_counts() -> PromptCounts:
    """Returns how many prompts of each kind there are."""
    return PromptCounts(harmful=len(harmful()), harmless=len(harmless()))
