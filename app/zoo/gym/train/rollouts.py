"""Rollouts: the answers that a policy samples to prompts, and their rewards.

Legend: N prompts, G answers of each.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.data.rows import as_chat
from zoo.gym.data.units import Example
from zoo.gym.rewards import Reward, Sample, Score, Task
from zoo.gym.train.order import rollout_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy, Sampling
    from zoo.gym.data.records import Record


@dataclass(frozen=True, slots=True)
class Answer:
    """One sampled answer.

    Attributes:
        prompt: the prompt, in tokens.
        ids: the tokens of the answer, with the one that ended it.
        text: the answer without that token.
        truncated: whether it reached the maximum length.
        score: its reward.
    """

    prompt: Example
    ids: list[int]
    text: str
    truncated: bool
    score: Score


@dataclass(frozen=True)
class Sampler:
    """Samples answers and scores them.

    Attributes:
        policy: the model that answers.
        reward: scores the answers.
        sampling: how answers are sampled, and the tokens that end them.
        decode: token ids to text.
    """

    policy: "Policy"
    reward: Reward
    sampling: "Sampling"
    decode: Callable[[list[int]], str]

    def answer(
        self, prompts: Sequence[Example], group_size: int, *, seed: int, step: int
    ) -> list[list[Answer]]:
        """Returns `group_size` scored answers to each prompt, [N][G].

        Args:
            prompts: the prompts.
            group_size: answers to each.
            seed: the seed of the run.
            step: each answer's random stream depends on seed, step, prompt and answer alone.
        """
        rows = [(n, g) for n in range(len(prompts)) for g in range(group_size)]
        rollouts = self.policy.generate(
            [prompts[n].ids.tolist() for n, _ in rows],
            self.sampling,
            keys=[rollout_key(seed, step, n, g) for n, g in rows],
        )
        stops = self.sampling.stop_ids
        texts = [self.decode([i for i in found.ids if i not in stops]) for found in rollouts]
        tasks = [task_of(prompt) for prompt in prompts]
        scores = self.reward.score(
            [
                Sample(tasks[n], text, len(found.ids))
                for (n, _), text, found in zip(rows, texts, rollouts, strict=True)
            ]
        )
        answers = [
            Answer(prompts[n], found.ids, text, found.finish == "length", score)
            for (n, _), found, text, score in zip(rows, rollouts, texts, scores, strict=True)
        ]
        return [answers[i : i + group_size] for i in range(0, len(answers), group_size)]


def task_of(prompt: Example) -> Task:
    """Returns what a reward reads about a prompt."""
    assert prompt.record is not None
    return task_of_record(prompt.record)


def task_of_record(record: "Record") -> Task:
    """Returns what a reward reads about a row."""
    return Task(
        as_chat(record),
        record.answer,
        record.completion,
        record.metadata,
        record.source,
        record.tools,
    )


def unscored(answers: "Sequence[Sequence[Answer]]", step: int) -> Iterator[str]:
    """Yields a warning about answers without a reward, with the first of them."""
    failed = [one for group in answers for one in group if one.score.failed]
    if failed:
        total = sum(map(len, answers))
        text = ascii(failed[0].text[:60])
        yield (
            f"step {step}: {len(failed)} of {total} answers have no reward and are not learned; "
            f"the first, to {failed[0].prompt.source}: {failed[0].score.reason}; answer: {text}"
        )


def sample_lines(
    answers: "Sequence[Sequence[Answer]]", advantages_NG: "NDArray[np.float64]", step: int
) -> Iterator[dict[str, object]]:
    """Yields the line of each answer in samples.jsonl."""
    for group, advantages in zip(answers, advantages_NG.tolist(), strict=True):
        for one, advantage in zip(group, advantages, strict=True):
            task = task_of(one.prompt)
            yield {
                "step": step,
                "source": one.prompt.source,
                "prompt": task.query,
                "completion": one.text,
                "reward": None if one.score.failed else one.score.value,
                "reason": one.score.reason,
                "parts": {
                    name: None if math.isnan(value) else value
                    for name, value in one.score.parts.items()
                },
                "advantage": advantage,
                "tokens": len(one.ids),
                "truncated": one.truncated,
            }
