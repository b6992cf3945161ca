"""Distillation of lessons: the model learns to answer as it does with them in its prompt.

Legend: N prompts, G answers of each.

On-policy context distillation (arXiv:2602.12275): the model samples answers without the lessons; of
each of their tokens it learns the distribution that the untrained model has with the lessons in the
system turn, by the reverse KL. The teacher is the base beneath the adapter, and reads its own
prompt. `Lessons.window` is a whole step. An evaluation is the divergence on answers to held-out
prompts. Left out: rewards, which choose no answers here, and the paper's separate teachers.
`zoo-gym experience distill` starts it and measures the gain.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from pydantic import Field

from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number, Whole, chosen
from zoo.gym.data import Message, chat_stops, encode_prompt
from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.lazy import seen_of
from zoo.gym.data.own_tokenizer import tokenizer_of
from zoo.gym.data.records import Kind
from zoo.gym.data.units import Example, Unit, alone
from zoo.gym.errors import InputError
from zoo.gym.experience.learning.prompts import task_turns
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.library import Library
from zoo.gym.humanize import counted
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.distillation import DistillationLoss
from zoo.gym.paths import given_path
from zoo.gym.train.accumulate import score_window
from zoo.gym.train.method import Evaluation, Method, Window
from zoo.gym.train.order import rollout_key, rows_of_step
from zoo.gym.train.plan import Choice, Facts, batch_tokens
from zoo.gym.train.rollouts import task_of
from zoo.gym.train.rows import encode_options

if TYPE_CHECKING:
    from zoo.backends.base import Objective

ANSWERS_PER_STEP = 32
STEPS = 100
LONGEST_ANSWER = 512
"""What is chosen by default."""


class LessonsConfig(TrainConfig, frozen=True):
    """The settings of the distillation of lessons."""

    stage: Literal["lessons"] = Field(
        default="lessons", description="lessons learns what lessons in the prompt make likely"
    )
    lessons: str = Field(min_length=1, description="the file of a library of lessons")
    group_size: Whole = Field(default=2, ge=1, le=4096, description="answers sampled to a prompt")
    max_completion_length: Whole | None = chosen(
        ge=1, le=1_048_576, description="the maximum length of a sampled answer in tokens"
    )
    temperature: Number = Field(
        default=1.0, ge=1e-2, le=100, description="the divisor of the logits of sampled answers"
    )

    @property
    def other_files(self) -> dict[str, str]:
        """The files besides data and models: those of all methods, and the library."""
        return super().other_files | {"lessons": self.lessons}

    def places_changed(self, change: Callable[[str, str], str]) -> dict[str, object]:
        """Returns the settings with the places in them changed."""
        return super().places_changed(change) | {"lessons": change("adapter", self.lessons)}

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that is wrong or conflicts with others."""
        faults = list(super().conflicts())
        if self.num_processes > 1:
            faults.append(("num_processes", "expected 1: answers are sampled in one process"))
        if self.neftune_noise_alpha:
            faults.append(("neftune_noise_alpha", "has no place where answers are sampled"))
        return faults


class Lessons(Method):
    """Learns what lessons in the prompt make likely, on answers without them."""

    config = LessonsConfig
    reads: ClassVar[frozenset[Kind]] = frozenset({"prompt"})
    loss_unit = "nats per token"
    watch = ("kl", "completion_length")
    generates = True

    @property
    def _settings(self) -> LessonsConfig:
        return cast("LessonsConfig", self.plan.config)

    @property
    def objective(self) -> "Objective":
        """The reverse KL from the distribution with the lessons."""
        return DistillationLoss("reverse_kl")

    def window(self, step: int) -> Window:
        """Samples answers without the lessons and returns them, each also after the lessons."""
        config = self._settings
        units = rows_of_step(self.units, step, self.plan.rows_per_step, config.seed)
        return self._window([unit.rows[0] for unit in units], step, config.group_size)

    def _window(self, prompts: Sequence[Example], step: int, group_size: int) -> Window:
        config = self._settings
        rows = [(n, g) for n in range(len(prompts)) for g in range(group_size)]
        rollouts = self.policy.generate(
            [prompts[n].ids.tolist() for n, _ in rows],
            self.sampling,
            keys=[rollout_key(config.seed, step, n, g) for n, g in rows],
        )
        taught = [self._with_lessons(prompt) for prompt in prompts]
        answers = [(n, rollout.ids) for (n, _), rollout in zip(rows, rollouts, strict=True)]
        units = alone(answered(prompts[n], ids) for n, ids in answers)
        read = alone(answered(taught[n], ids) for n, ids in answers)
        teacher = {id(unit): other for unit, other in zip(units, read, strict=True)}
        tokens = sum(unit.learned_tokens for unit in units)
        constants = {WINDOW_TOKENS: float(tokens)}
        size = config.per_device_train_batch_size
        limit = batch_tokens(self.policy.parameter_count())
        batches = [
            replace(
                collate(part, constants, temperature=config.temperature),
                teacher=collate([teacher[id(u)] for u in part], temperature=config.temperature),
            )
            for part in micro_batches(units, max_units=size, max_batch_tokens=limit)
        ]
        cut = sum(rollout.finish == "length" for rollout in rollouts) / len(rollouts)
        metrics = {"completion_length": tokens / len(rollouts), "truncated": cut}
        return Window(batches, tokens, metrics)

    def _with_lessons(self, prompt: Example) -> Example:
        """Returns a prompt as the teacher reads it: the lessons come before its own system turn."""
        import numpy as np

        turns = task_turns(task_of(prompt), self.library, "")
        messages = [Message(turn["role"], turn["content"]) for turn in turns]
        ids = encode_prompt(messages, self.tokenizer, self.options)
        longest = len(ids) + self.sampling.max_new_tokens
        if longest > self.options.cutoff_len:
            raise InputError(
                f"{prompt.source}: with the lessons and an answer it has {longest:,} tokens: "
                f"expected at most {self.options.cutoff_len:,}",
                hint="a smaller max_completion_length, or fewer lessons",
                code="experience.prompt_too_long",
            )
        return replace(prompt, ids=np.array(ids), mask=np.zeros(len(ids), np.bool_))

    def evaluate(self) -> Evaluation:
        """Returns the divergence on one sampled answer to each held-out prompt."""
        window = self._window([unit.rows[0] for unit in self.held_out], 0, 1)
        metrics = score_window(self.policy, self.objective, window.batches, self.teacher)
        length = {"completion_length": window.metrics["completion_length"]}
        return Evaluation(metrics.pop("loss"), window.learned_tokens, metrics | length)

    def prepare(self) -> None:
        """Loads the tokenizer and the lessons; the model as it is now becomes the teacher.

        Raises:
            InputError: a prompt with the lessons and an answer is longer than the model reads.
        """
        from zoo.backends.base import Sampling
        from zoo.models import resolve

        config = self._settings
        base = resolve(config.model_name_or_path, offline=True).folder
        self.tokenizer = tokenizer_of(base, config.first_adapter, config.template)
        self.options = encode_options(config, base)
        self.library = library_in(config.lessons)
        assert config.max_completion_length is not None
        stops = chat_stops(base, self.tokenizer, self.options)
        self.sampling = Sampling(config.max_completion_length, config.temperature, stop_ids=stops)
        longest = max((*seen_of(self.units), *self.held_out), key=lambda unit: unit.longest)
        self._with_lessons(longest.rows[0])  # refuses a row that is too long before any step
        self._open = ExitStack()
        self.teacher = self._open.enter_context(self.policy.reference())

    def close(self) -> None:
        """Frees the teacher."""
        if hasattr(self, "_open"):
            self._open.close()

    # ---- the defaults of the settings

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns True: a divergence is a sum over the vocabulary."""
        del config
        return True

    @classmethod
    def keeps_reference(cls, config: TrainConfig) -> bool:
        """Returns True: the teacher is the model as it was before training."""
        del config
        return True

    @classmethod
    def check_models(cls, config: TrainConfig, folder: Path) -> None:
        """Checks that the library can be read, and has lessons.

        Raises:
            InputError: it has none, or was changed.
            NotAvailableError: there is no such file.
        """
        del folder
        library_in(cast("LessonsConfig", config).lessons)

    @classmethod
    def answer_tokens(cls, config: TrainConfig, cutoff_len: int) -> int:
        """Returns the maximum length of an answer: as given, or at most half of the context."""
        assert isinstance(config, LessonsConfig)
        return config.max_completion_length or min(LONGEST_ANSWER, cutoff_len // 2)

    @classmethod
    def rows_per_unit(cls, config: TrainConfig) -> int:
        """Returns the number of answers to each prompt."""
        assert isinstance(config, LessonsConfig)
        return config.group_size

    @classmethod
    def width(cls, config: TrainConfig, unit: Unit, cutoff_len: int) -> int:
        """Returns the tokens of an answer's row and of that of the teacher, at most."""
        assert isinstance(config, LessonsConfig)
        read = library_in(config.lessons).tokens + unit.longest
        return config.group_size * (read + cls.answer_tokens(config, cutoff_len))

    @classmethod
    def choices(cls, config: TrainConfig, facts: Facts) -> Iterable[Choice]:
        """Returns the defaults that differ from those of supervised training."""
        assert isinstance(config, LessonsConfig)
        longest = cls.answer_tokens(config, facts.cutoff_len)
        why = f"at most {LONGEST_ANSWER}, or half of the {facts.cutoff_len:,} tokens of a row"
        yield Choice("max_completion_length", longest, why)
        prompts = min(max(1, ANSWERS_PER_STEP // config.group_size), facts.rows)
        why = f"{counted(prompts, 'prompt')} a step, each with {config.group_size} answers"
        micro = config.per_device_train_batch_size or prompts
        yield Choice("per_device_train_batch_size", micro, why)
        yield Choice("gradient_accumulation_steps", max(1, round(prompts / micro)), why)
        if config.num_train_epochs is None:
            yield Choice("max_steps", STEPS, "usual for lessons: watch the held-out divergence")


@cache
def library_in(file: str) -> Library:
    """Returns the lessons in a file.

    Raises:
        InputError: it is no library, was changed, or has no lesson.
        NotAvailableError: there is no such file.
    """
    library, _ = read_library(given_path(file))
    if not library.items:
        raise InputError(
            f"lessons: {file}: expected a library with lessons, got none",
            code="experience.no_lessons",
        )
    return library


def answered(prompt: Example, ids: Sequence[int]) -> Example:
    """Returns the row of a prompt and an answer; only the answer is learned."""
    import numpy as np

    tokens = np.concatenate([prompt.ids, np.array(ids, dtype=np.int64)])
    mask = np.arange(len(tokens)) >= len(prompt.ids)
    return Example(tokens, mask, prompt.source, truncated=False, extras=prompt.extras)
