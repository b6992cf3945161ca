"""How far what another program computes is from the source: log-probabilities after prompts.

After each prompt the most likely tokens of the source are compared, with all else as one more: the
whole vocabulary where it has at most `MOST` tokens.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.backends.sampling import Sampling
from zoo.gym.data import encode_prompt
from zoo.gym.delta.loadable import Loadable
from zoo.gym.errors import InputError
from zoo.gym.export.conversations import CONVERSATIONS, TEXTS
from zoo.gym.export.job import Job

if TYPE_CHECKING:
    from zoo.backends.answerer import Answerer

MOST = 2048
"""The tokens whose log-probabilities are compared after each prompt."""

F32_SHARE = 0.3
"""The most of the memory that a source in float32 takes; a larger one is loaded as stored."""


@dataclass(frozen=True)
class Difference:
    """How far two distributions over the next token are apart, after several prompts.

    Attributes:
        prompts: their number.
        max_logprob: the largest difference of two log-probabilities, of tokens that the source
            gives at least e^-12.
        kl: KL(source || other), the mean over the prompts, in nats.
        top1: the share of prompts after which both have the same most likely token.
    """

    prompts: int
    max_logprob: float
    kl: float
    top1: float

    def as_json(self) -> dict[str, float]:
        """Returns the figures by name."""
        return {
            "prompts": self.prompts,
            "max_logprob_difference": self.max_logprob,
            "mean_kl": self.kl,
            "top1_equal": self.top1,
        }


LEAST = -12.0
"""The log-probability of the least likely token whose difference counts."""


def prompts_of(job: Job) -> list[list[int]]:
    """Returns the prompts that are compared, as tokens.

    Raises:
        InputError: the chat template renders none of the conversations.
    """
    if job.template is None:
        return [job.ids(text) for text in TEXTS]
    prompts: list[list[int]] = []
    reason = ""
    for messages in CONVERSATIONS:
        try:
            prompts.append(encode_prompt(list(messages), job.tokenizer, job.encoding))
        except InputError as error:  # a template that takes no system prompt, for example
            reason = error.message
    if not prompts:
        raise InputError(
            f"chat template: expected one that renders a conversation: {reason}",
            code="export.no_conversation",
        )
    return prompts


def next_logprobs(
    model: "Answerer", prompts: Sequence[Sequence[int]], most: int
) -> list[dict[int, float]]:
    """Returns the log-probabilities of the most likely next tokens after each prompt."""
    sampling = Sampling(max_new_tokens=1, top_logprobs=most)
    rows: list[dict[int, float]] = []
    for prompt in prompts:  # one at a time: sums of several are rounded otherwise
        (event,) = model.stream([prompt], sampling, keys=[0])
        rows.append(dict(event.top))
    return rows


def difference(
    source: Sequence[Mapping[int, float]], other: Sequence[Mapping[int, float]]
) -> Difference:
    """Compares the distributions after the same prompts.

    Args:
        source: the log-probabilities of the likeliest tokens after each.
        other: those of the other program; a token that it lacks is less likely than all it has.

    Raises:
        InputError: a log-probability is no number, in which no difference would be seen.
    """
    for rows, name in ((source, "the source"), (other, "the other program")):
        if any(math.isnan(logprob) for row in rows for logprob in row.values()):
            raise InputError(
                f"log-probabilities of {name}: expected numbers, got NaN", code="export.nan"
            )
    largest = total = 0.0
    same = 0
    for ours, theirs in zip(source, other, strict=True):
        floor = min(theirs.values())
        kl = rest = their_rest = 0.0
        for token, logprob in ours.items():
            found = theirs.get(token, floor)
            if logprob >= LEAST:
                largest = max(largest, abs(logprob - found))
            kl += math.exp(logprob) * (logprob - found)
            rest, their_rest = rest + math.exp(logprob), their_rest + math.exp(found)
        ours_left, theirs_left = max(0.0, 1 - rest), max(1e-12, 1 - their_rest)
        if ours_left > 1e-6:
            kl += ours_left * math.log(ours_left / theirs_left)
        total += max(0.0, kl)
        same += max(ours, key=ours.__getitem__) == max(theirs, key=theirs.__getitem__)
    return Difference(len(source), largest, total / len(source), same / len(source))


def source_logprobs(job: Job, prompts: Sequence[Sequence[int]]) -> list[dict[int, float]]:
    """Returns the source's log-probabilities, computed by our own engine."""
    with job.given.loadable() as loadable:
        policy = loadable.load(None, comparison_dtype(job))
        return next_logprobs(policy, prompts, MOST)


def base_logprobs(job: Job, prompts: Sequence[Sequence[int]]) -> list[dict[int, float]]:
    """Returns the log-probabilities of the base without the fine-tune."""
    policy = Loadable(job.base.folder, None).load(None, comparison_dtype(job))
    return next_logprobs(policy, prompts, MOST)


def comparison_dtype(job: Job) -> str:
    """Returns the type in which source and export are loaded: float32 where that fits in memory.

    The other one is `auto`, as they are stored, which rounds sums: then only the mean KL is judged.
    """
    import psutil

    weights = sum(math.prod(shape) for shape in job.tuned.merged_shapes.values())
    return "f32" if 4 * weights < F32_SHARE * psutil.virtual_memory().total else "auto"
