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
        reward: scores the answers; only the first of several processes has one.
        sampling: how answers are sampled, and the tokens that end them.
        decode: token ids to text.
    """

    policy: "Policy"
    reward: Reward | None
    sampling: "Sampling"
    decode: Callable[[list[int]], str]

    def answer(
        self, prompts: Sequence[Example], group_size: int, *, seed: int, step: int, first: int = 0
    ) -> list[list[Answer]]:
        """Returns `group_size` scored answers to each prompt, [N][G].

        Args:
            prompts: the prompts.
            group_size: answers to each.
            seed: the seed of the run.
            step: each answer's random stream depends on seed, step, prompt and answer alone.
            first: the place of the first prompt among those of the step.
        """
        rows = [(n, g) for n in range(len(prompts)) for g in range(group_size)]
        sampled = self._sampled(
            prompts, group_size, lambda n, g: rollout_key(seed, step, first + n, g)
        )
        stops = self.sampling.stop_ids
        texts = [self.decode([i for i in ids if i not in stops]) for ids, _ in sampled]
        tasks = [task_of(prompt) for prompt in prompts]
        scores = self._scores(
            [
                Sample(tasks[n], text, len(ids))
                for (n, _), text, (ids, _) in zip(rows, texts, sampled, strict=True)
            ]
        )
        answers = [
            Answer(prompts[n], ids, text, cut, score)
            for (n, _), (ids, cut), text, score in zip(rows, sampled, texts, scores, strict=True)
        ]
        return [answers[i : i + group_size] for i in range(0, len(answers), group_size)]

    def _sampled(
        self, prompts: Sequence[Example], group_size: int, key: Callable[[int, int], int]
    ) -> list[tuple[list[int], bool]]:
        """Returns the tokens of each answer and whether it was cut, prompt after prompt.

        Each process samples the answers to some of the prompts.
        """
        import numpy as np

        ranks = self.policy.ranks
        mine = ranks.mine(len(prompts))
        rows = [(n, g) for n in mine for g in range(group_size)]
        rollouts = (
            self.policy.generate(
                [prompts[n].ids.tolist() for n, _ in rows],
                self.sampling,
                keys=[key(n, g) for n, g in rows],
            )
            if rows or self.policy.divided
            else []
        )
        local = {
            n * group_size + g: {
                "ids": np.array(rollout.ids, dtype=np.int64),
                "cut": np.array([rollout.finish == "length"]),
            }
            for (n, g), rollout in zip(rows, rollouts, strict=True)
        }
        return [(row["ids"].tolist(), bool(row["cut"][0])) for row in ranks.join(local)]

    def _scores(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the reward of each answer; it is asked once, whatever the number of processes.

        A reward may be another at each call, such as a judge's or that of a function with a state.
        """
        scores = self.reward.score(samples) if self.reward is not None else []
        ranks = self.policy.ranks
        if ranks.size == 1:
            return list(scores)
        return [
            Score(value, reason, parts)
            for value, reason, parts in ranks.share(
                [(score.value, score.reason, dict(score.parts)) for score in scores]
            )
        ]


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
        is_chat=not record.prompt,
    )


def unscored(answers: "Sequence[Sequence[Answer]]", step: int) -> Iterator[str]:
    """Yields a warning about answers without a reward, with the first of them."""
    failed = [answer for group in answers for answer in group if answer.score.failed]
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
        for answer, advantage in zip(group, advantages, strict=True):
            task = task_of(answer.prompt)
            yield {
                "step": step,
                "source": answer.prompt.source,
                "prompt": task.query,
                "completion": answer.text,
                "reward": None if answer.score.failed else answer.score.value,
                "reason": answer.score.reason,
                "parts": {
                    name: None if math.isnan(value) else value
                    for name, value in answer.score.parts.items()
                },
                "advantage": advantage,
                "tokens": len(answer.ids),
                "truncated": answer.truncated,
            }
