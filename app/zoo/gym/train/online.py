"""Methods that learn from their own answers: the way of a step, evaluation, guards and state.

Legend: N prompts, G answers of each.

A step in one scroll is `Online.window`: answers, rewards, advantages, and the rows to learn; the
loop accumulates the objective over them and steps. A method adds its objective and how rewards
become advantages. An evaluation is the mean reward of the most likely answers to held-out prompts.
Left out: tools, answers of several turns, sampling by another engine.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from zoo.gym import rewards
from zoo.gym.config.rollouts import LIVE_REWARD, ClippedConfig, RolloutConfig
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import chat_stops
from zoo.gym.data.batches import GROUP_TOKENS
from zoo.gym.data.lazy import seen_of
from zoo.gym.data.own_tokenizer import tokenizer_of
from zoo.gym.data.records import Kind
from zoo.gym.errors import GuardError, InputError
from zoo.gym.humanize import counted
from zoo.gym.objectives.advantages import without_spread
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.objectives.grpo import OLD_LOGPROBS
from zoo.gym.rewards.auto import choose
from zoo.gym.train.buffer import Buffer, make_buffer
from zoo.gym.train.guards import EqualRewards
from zoo.gym.train.method import Evaluation, Method, Window
from zoo.gym.train.plan import Choice, Facts, Plan, batch_tokens
from zoo.gym.train.prompts import MOST_DRAWN, PromptQueue
from zoo.gym.train.rollout_alarms import RolloutAlarms
from zoo.gym.train.rollouts import Answer, Sampler, sample_lines, task_of, task_of_record, unscored
from zoo.gym.train.rows import encode_options
from zoo.gym.train.run_folder.samples import SAMPLES_FILE, append_samples, keep_samples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy
    from zoo.gym.data.records import Record
    from zoo.gym.data.units import Unit

PART = "rewards/"
"""The prefix of the metric of one reward of a sum."""

EVALUATED = ("reward", "completion_length", "unscored")
"""The metrics of an evaluation."""

LONGEST_ANSWER = 512
"""The length of an answer that is chosen by default, in tokens."""

STATE_FILE, BUFFER_FILE = "online.json", "answers.safetensors"
PROMPTS = "prompts"
"""In the state: that of the queue."""

C = TypeVar("C", bound=RolloutConfig)


class Online(Method, Generic[C]):
    """A method that samples answers to prompts, scores them, and learns from the scores."""

    reads: ClassVar[frozenset[Kind]] = frozenset({"prompt"})
    decides, better = "reward", "higher"
    watch = ("reward", "equal_groups", "completion_length")
    generates = True

    compares_groups: ClassVar[bool] = True
    """Whether the answers of a group are compared, so that equal rewards teach nothing."""

    def __init__(
        self,
        policy: "Policy",
        plan: Plan,
        units: "Sequence[Unit]",
        held_out: "Sequence[Unit]",
        folder: Path,
    ) -> None:
        super().__init__(policy, plan, units, held_out, folder)
        self.settings = cast("C", plan.config)
        self.samples = folder / SAMPLES_FILE
        self.buffer: Buffer | None = None
        self.spread, self.alarms = EqualRewards(), RolloutAlarms()
        self.prompts = PromptQueue(len(units), plan.config.seed)
        self.step = 0

    @property
    def learns_equal_groups(self) -> bool:
        """Whether a group whose rewards are all equal has a gradient."""
        return False

    @abstractmethod
    def advantages(self, rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Returns the advantage of each answer from its reward; NaN is a missing reward."""

    def window(self, step: int) -> Window:
        """Samples and scores answers, or takes those of the previous step, and returns them.

        Raises:
            GuardError: the rewards of 64 groups in a row are equal, or no answer has a reward.
        """
        config = self.settings
        if self.buffer is None or (step - 1) % config.steps_on_answers == 0:
            # a run that was killed before its first checkpoint begins anew
            if step == 1 and self.policy.ranks.is_first:
                keep_samples(self.samples, 0)
            self.buffer = self._learnable(self._sampled(step), step)
        self.step = step
        window = self.step_window(self.buffer)
        self.buffer = replace(self.buffer, notes=())  # emitted once, also for several steps
        return window

    @property
    def selects(self) -> bool:
        """Whether prompts without better and worse answers are replaced by others."""
        config = self.settings
        return isinstance(config, ClippedConfig) and config.dynamic_sampling

    def _sampled(self, step: int) -> "list[list[Answer]]":
        """Returns answers to the prompts of a step, [N][G]; to more of them if it selects."""
        count = self.plan.rows_per_step
        if not self.selects:
            return self._answers(self.prompts.draw(count), step, 0)[0]
        answers: list[list[Answer]] = []
        missing, left = count, MOST_DRAWN * count
        while missing > count // 8 and left:
            indices = self.prompts.draw(min(self.prompts.wanted(missing), left))
            drawn, mixed = self._answers(indices, step, len(answers))
            answers += drawn
            missing, left = missing - mixed, left - len(indices)
        return answers

    def _answers(
        self, prompts: Sequence[int], step: int, first: int
    ) -> "tuple[list[list[Answer]], int]":
        """Returns answers to prompts, and how many groups have better and worse ones."""
        config, rows = self.settings, [self.units[index].rows[0] for index in prompts]
        size, seed = config.group_size, config.seed
        answers = self.sampler.answer(rows, size, seed=seed, step=step, first=first)
        if not self.compares_groups:
            return answers, 0
        spread_N = ~without_spread(self.adjusted(answers, rewards_of(answers)))
        self.prompts.measured(prompts, spread_N.tolist())
        return answers, int(spread_N.sum())

    def _learnable(self, answers: "Sequence[Sequence[Answer]]", step: int) -> Buffer:
        """Returns the rows to learn from answers, [N][G], with their advantages."""
        import numpy as np

        rewards_NG = rewards_of(answers)
        check_rewards(answers, step)
        adjusted_NG = self.adjusted(answers, rewards_NG)
        metrics = metrics_of(answers, rewards_NG)
        if self.compares_groups:
            equal_N = without_spread(adjusted_NG)
            metrics["equal_groups"] = float(equal_N.mean())
        else:  # all answers of a step are compared
            equal_N = np.repeat(without_spread(adjusted_NG.reshape(1, -1)), len(adjusted_NG))
        if not self.selects or equal_N.all():
            self.spread.check(equal_N.tolist(), rewards_NG, adjusted_NG)
        else:  # the others are replaced
            learnable_N = ~equal_N
            self.spread.check([False] * int(learnable_N.sum()), rewards_NG[learnable_N])
        alarms = self.alarms.look(answers, adjusted_NG) if self.compares_groups else ()
        notes = (*unscored(answers, step), *alarms)
        if self.selects and not equal_N.all():
            chosen = np.flatnonzero(~equal_N)[: self.plan.rows_per_step].tolist()
            unused = [group for index, group in enumerate(answers) if index not in chosen]
            self._store(unused, np.zeros((len(unused), rewards_NG.shape[1])), step)
            answers, adjusted_NG = [answers[index] for index in chosen], adjusted_NG[chosen]
        penalised_NG = self.penalised(answers, adjusted_NG)
        advantages_NG = self.advantages(penalised_NG)
        self._store(answers, advantages_NG, step)
        skip_N = without_spread(penalised_NG)
        if self.learns_equal_groups or not self.compares_groups:
            skip_N = np.zeros_like(skip_N)
        masked = self.settings.mask_truncated_completions
        buffer = make_buffer(answers, advantages_NG, skip_N, mask_truncated=masked)
        buffer = replace(buffer, temperature=self.settings.temperature)
        if buffer.units:
            buffer = self.scored(buffer)
        return replace(buffer, metrics=metrics, notes=notes)

    def _store(
        self,
        answers: "Sequence[Sequence[Answer]]",
        advantages_NG: "NDArray[np.float64]",
        step: int,
    ) -> None:
        """Writes answers to samples.jsonl."""
        if self.policy.ranks.is_first:
            append_samples(self.samples, list(sample_lines(answers, advantages_NG, step)))

    def adjusted(
        self, answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Returns the rewards as the method counts them; it may clip them, for example."""
        del answers
        return rewards_NG

    def penalised(
        self, answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Returns the rewards that advantages are taken from, less any divergence."""
        del answers
        return rewards_NG

    def scored(self, buffer: Buffer) -> Buffer:
        """Adds the log-probabilities of this policy, if it will change, and of the reference."""
        if self.settings.steps_on_answers > 1:
            buffer = buffer.with_extras(OLD_LOGPROBS, self.logprobs(buffer))
        if self.keeps_reference(self.settings):
            buffer = buffer.with_extras(REF_LOGPROBS, self.reference_logprobs(buffer))
        return buffer

    def logprobs(self, buffer: Buffer) -> "list[NDArray[Any]]":
        """Returns the log-probabilities of the rows' tokens, [T] each, as the policy is now."""
        from zoo.backends.base import Stat

        limit = batch_tokens(self.policy.parameter_count())
        return buffer.scored(self.policy, Stat.LOGPROBS, limit, self.policy.ranks)

    def reference_logprobs(self, buffer: Buffer) -> "list[NDArray[Any]]":
        """Returns the log-probabilities by the model as it was before training."""
        from zoo.backends.base import Stat

        limit = batch_tokens(self.policy.parameter_count())
        with self.policy.reference() as reference:
            return buffer.scored(reference, Stat.LOGPROBS, limit, self.policy.ranks)

    def step_window(self, buffer: Buffer) -> Window:
        """Returns the rows of a step; a method may add what depends on the current policy."""
        limit = batch_tokens(self.policy.parameter_count())
        return buffer.window(self.settings.per_device_train_batch_size, limit)

    def evaluate(self) -> Evaluation:
        """Returns the mean reward of the most likely answers to the held-out prompts.

        It is NaN, which is never the best, if none of them has a reward.
        """
        greedy = replace(self.sampler, sampling=replace(self.sampler.sampling, temperature=0.0))
        rows = [unit.rows[0] for unit in self.held_out]
        answers = greedy.answer(rows, 1, seed=self.settings.seed, step=0)
        rewards_NG = rewards_of(answers)
        tokens = sum(len(answer.ids) for group in answers for answer in group)
        metrics = metrics_of(answers, rewards_NG)
        self.spread.saw(metrics["reward"])
        reported = [key for key in metrics if key in EVALUATED or key.startswith(PART)]
        return Evaluation(None, tokens, {key: metrics[key] for key in reported})

    # ---- the defaults of the settings

    @classmethod
    def answer_tokens(cls, config: TrainConfig, cutoff_len: int) -> int:
        """Returns the maximum length of an answer: as given, or at most half of the context."""
        assert isinstance(config, RolloutConfig)
        return config.max_completion_length or min(LONGEST_ANSWER, cutoff_len // 2)

    @classmethod
    def rows_per_unit(cls, config: TrainConfig) -> int:
        """Returns the number of answers to each prompt."""
        assert isinstance(config, RolloutConfig)
        return config.group_size

    @classmethod
    def keeps_reference(cls, config: TrainConfig) -> bool:
        """Returns whether the base model scores the answers, because `beta` is not 0."""
        return bool(getattr(config, "beta", 0.0))

    @classmethod
    def width(cls, config: TrainConfig, unit: "Unit", cutoff_len: int) -> int:
        """Returns the tokens of a group of answers of the maximum length, with their prompts."""
        assert isinstance(config, RolloutConfig)
        return config.group_size * (unit.longest + cls.answer_tokens(config, cutoff_len))

    @classmethod
    def micro_batch_tokens(cls, config: TrainConfig, widest: int, parameters: int) -> int:
        """Returns the tokens of the largest micro-batch: a part of a group may exceed a limit."""
        assert isinstance(config, RolloutConfig)
        micro = config.per_device_train_batch_size or 1
        part = max(min(widest, GROUP_TOKENS), widest // config.group_size)
        return min(widest * micro, max(part, batch_tokens(parameters)))

    @classmethod
    def choices(cls, config: TrainConfig, facts: Facts) -> Iterable[Choice]:
        """Returns the defaults that differ from those of supervised training, and the reward."""
        assert isinstance(config, RolloutConfig)
        if config.reward == "auto" and facts.units:
            fits = choose([task_of(unit.rows[0]) for unit in facts.units])
            yield Choice("reward", fits.settings.kind, fits.why)
        longest = cls.answer_tokens(config, facts.cutoff_len)
        yield Choice(
            "max_completion_length",
            longest,
            f"at most {LONGEST_ANSWER}, or half of the {facts.cutoff_len:,} tokens of a row",
        )
        processes = config.num_processes
        count = max(1, config.answers_per_step // config.group_size // processes)
        prompts = min(count, facts.rows)
        answers = counted(config.group_size, "answer")
        where = "step" if processes == 1 else f"step and each of {processes} processes"
        why = f"{counted(prompts, 'prompt')} per {where}, each with {answers}"
        micro = config.per_device_train_batch_size or prompts
        yield Choice("per_device_train_batch_size", micro, why)
        yield Choice("gradient_accumulation_steps", max(1, round(prompts / micro)), why)
        if config.num_train_epochs is None:
            steps, why = config.steps_on_answers, "usual for rewards: watch the held-out reward"
            if steps > 1:
                why = f"{steps} on each of {config.samplings} sets of answers: {why}"
            yield Choice("max_steps", config.samplings * steps, why)

    # ---- what a run needs before, between and after its steps

    @classmethod
    def check_records(cls, config: TrainConfig, records: "Iterable[Record]") -> None:
        """Checks that the reward can be made, and fits some of the rows."""
        tasks = [task_of_record(record) for record in records]
        rewards.check(spec_of(cast("RolloutConfig", config)), tasks)

    def prepare(self) -> None:
        """Loads the tokenizer and the reward."""
        from zoo.backends.base import Sampling
        from zoo.models import resolve

        config = self.settings
        base = resolve(config.model_name_or_path, offline=True).folder
        tokenizer = tokenizer_of(base, config.first_adapter, config.template)
        assert config.max_completion_length is not None
        stops = chat_stops(base, tokenizer, encode_options(config, base))
        sampling = Sampling(config.max_completion_length, config.temperature, stop_ids=stops)
        tasks = [task_of(unit.rows[0]) for unit in (*seen_of(self.units), *self.held_out)]
        first = self.policy.ranks.is_first
        reward = rewards.load(spec_of(config), tasks) if first else None
        self.sampler = Sampler(self.policy, reward, sampling, tokenizer.decode)

    def close(self) -> None:
        """Ends the processes of the reward."""
        if hasattr(self, "sampler") and self.sampler.reward is not None:
            self.sampler.reward.close()

    def save(self, folder: Path) -> None:
        """Writes the count of equal groups, and the answers if steps remain to be taken on them."""
        state = {"step": self.step, **self.spread.state(), PROMPTS: self.prompts.state()}
        (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")
        if self.buffer is not None and self.settings.steps_on_answers > 1:
            self.buffer.save(folder / BUFFER_FILE)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote."""
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        self.step = int(state["step"])
        self.spread.restore(state)
        if PROMPTS in state:  # checkpoints of earlier versions asked all prompts in turn
            self.prompts.restore(state[PROMPTS])
        if self.policy.ranks.is_first:
            keep_samples(self.samples, self.step)
        if (folder / BUFFER_FILE).is_file():
            self.buffer = Buffer.load(folder / BUFFER_FILE)


def spec_of(config: RolloutConfig) -> object:
    """Returns what scores the answers: the setting, or the functions of this process.

    Raises:
        InputError: it was a function of another process.
    """
    if config.reward == LIVE_REWARD and config.live_reward is None:
        raise InputError(
            "reward: expected the function that started this run, which only its process had",
            hint="write it to a file and train with reward=path.py:function",
            code="train.reward_gone",
        )
    return config.reward if config.live_reward is None else config.live_reward


def rewards_of(answers: "Sequence[Sequence[Answer]]") -> "NDArray[np.float64]":
    """Returns the reward of each answer, [N, G]; NaN for a missing one."""
    import numpy as np

    return np.array([[answer.score.value for answer in group] for group in answers])


def metrics_of(
    answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
) -> dict[str, float]:
    """Returns means over answers: reward, its standard deviation and parts, length, share cut."""
    import numpy as np

    present = rewards_NG[~np.isnan(rewards_NG)]
    flat = [answer for group in answers for answer in group]
    metrics = {
        "reward": float(present.mean()) if present.size else math.nan,
        "reward_std": float(present.std(ddof=1)) if present.size > 1 else 0.0,
        "completion_length": sum(len(answer.ids) for answer in flat) / len(flat),
        "truncated": sum(answer.truncated for answer in flat) / len(flat),
    }
    if present.size < rewards_NG.size:
        metrics["unscored"] = 1 - present.size / rewards_NG.size
    for name in flat[0].score.parts:
        values = [answer.score.parts[name] for answer in flat]
        scored = [value for value in values if not math.isnan(value)]
        metrics[f"{PART}{name}"] = sum(scored) / len(scored) if scored else math.nan
    return metrics


def check_rewards(answers: "Sequence[Sequence[Answer]]", step: int) -> None:
    """Raises an error if no answer has a reward.

    Raises:
        GuardError: that is the case; the message has the reason of the first answer.
    """
    scores = [answer.score for group in answers for answer in group]
    if all(score.failed for score in scores):
        raise GuardError(
            f"step {step}: expected a reward for at least one answer, got none: {scores[0].reason}",
            code="train.no_rewards",
        )
