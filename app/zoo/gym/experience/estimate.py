"""What a run will need, before its first call: calls, tokens, money, and the gain its gate sees.

Low: no group has better and worse answers, so nothing is proposed, gated or tested. Expected: half
of the groups do at first, and a step's edits are few. High: every group always does, every edit is
probed, every gate needs all its looks, each step makes room in a full library, and each answer is
as long as it may be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from zoo.gym.experience.learning.gate import LOOKS
from zoo.gym.experience.learning.learn import batches
from zoo.gym.experience.learning.prompts import MOST_EDITS, MOST_SHOWN, TEACHER
from zoo.gym.experience.learning.propose import MOST_PER_STEP
from zoo.gym.experience.learning.retire import most_calls
from zoo.gym.experience.learning.signflip import LEVEL, visible_effect
from zoo.gym.experience.learning.split import Split, same_text, task_text
from zoo.gym.experience.library.library import MOST_TOKENS
from zoo.gym.experience.models import Named
from zoo.gym.experience.settings import MAJORITY, ExperienceConfig
from zoo.gym.rewards.reward import Task

MIXED = 0.5
"""The share of groups with better and worse answers in the first step that is expected."""

LENGTH = 0.3
"""The share of the longest answer that is expected."""

VARIANCE = 0.064
"""The mean of p (1 - p) of tasks that are solved with 0.8 on average, most nearly always."""

_FRAME = 16
_BYTES_A_TOKEN = 4


@dataclass(frozen=True)
class Amount:
    """An amount in three cases."""

    low: float
    expected: float
    high: float

    def __str__(self) -> str:
        numbers = (self.low, self.expected, self.high)
        is_small = max(numbers) < 100 and any(number != int(number) for number in numbers)
        return " / ".join(f"{number:.2f}" if is_small else f"{number:,.0f}" for number in numbers)


@dataclass(frozen=True)
class Estimate:
    """What a run needs.

    Attributes:
        calls: calls of both models.
        tokens: tokens of messages and answers.
        usd: their price; 0 for models without one.
        leaves: the hosts of other machines that get tasks and answers.
        gate_tasks: the tasks of the gate.
        visible_effect: the gain that the gate finds four times of five; None without a gate.
    """

    calls: Amount
    tokens: Amount
    usd: Amount
    leaves: list[str]
    gate_tasks: int
    visible_effect: float | None


@dataclass(frozen=True)
class _Calls:
    """Calls of one model with their mean length in one case."""

    count: float
    prompt_tokens: float
    answer_tokens: float
    is_teacher: bool = False


def estimate(config: ExperienceConfig, split: Split, models: Named) -> Estimate:
    """Returns what a run needs."""
    cases = [_low(config, split), _expected(config, split), _high(config, split)]
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    level = LEVEL / (steps * LOOKS) if steps else LEVEL
    return _estimate(config, cases, models, split.gate, level)


def estimate_answers(
    config: ExperienceConfig, tasks: Sequence[Task], models: Named, answers: int, lesson_tokens: int
) -> Estimate:
    """Returns what a command needs that compares lessons on tasks.

    `answers` is the most answers to the tasks, `lesson_tokens` the length of the longest lessons in
    a prompt, in tokens of four bytes.
    """
    prompt, length = _prompt(tasks, config), config.max_new_tokens
    longest = _longest_prompt(tasks, config, lesson_tokens)
    cases = [
        [_Calls(answers, prompt, 0)],
        [_Calls(answers, prompt + lesson_tokens / 2, LENGTH * length)],
        [_Calls(answers, longest, length)],
    ]
    return _estimate(config, cases, models, tasks, LEVEL)


def _estimate(
    config: ExperienceConfig,
    cases: Sequence[Sequence[_Calls]],
    models: Named,
    compared: Sequence[Task],
    level: float,
) -> Estimate:
    tokens = [sum(c.count * (c.prompt_tokens + c.answer_tokens) for c in case) for case in cases]
    count = len({same_text(task) for task in compared})
    effect = visible_effect(count, config.gate_draws, level, VARIANCE) if compared else None
    return Estimate(
        Amount(*(round(sum(calls.count for calls in case)) for case in cases)),
        Amount(*map(round, tokens)),
        Amount(*(round(sum(_usd(calls, models) for calls in case), 6) for case in cases)),
        sorted({server.host for server in models.on_servers if not server.is_local}),
        count,
        None if effect is None else round(effect, 4),
    )


def _usd(calls: _Calls, models: Named) -> float:
    price = (models.teacher if calls.is_teacher else models.model).price
    if price is None:
        return 0.0
    return calls.count * price.usd(round(calls.prompt_tokens), 0, round(calls.answer_tokens))


def _low(config: ExperienceConfig, split: Split) -> list[_Calls]:
    rollouts = len(split.train) * config.max_epochs * config.group_size
    # some tokenizers read eight bytes as one token
    return [_Calls(rollouts + _labels(config, split), _prompt(split.train, config) / 2, 1)]


def _labels(config: ExperienceConfig, split: Split) -> int:
    """Returns the answers that labels take, if there are no known answers."""
    count = len(split.train) + len(split.gate) + len(split.test)
    return count * config.group_size if config.reward == MAJORITY else 0


def _expected(config: ExperienceConfig, split: Split) -> list[_Calls]:
    answer = LENGTH * config.max_new_tokens
    prompt = _prompt(split.train, config)
    rollouts = len(split.train) * config.max_epochs * config.group_size
    mixed = MIXED * len(split.train) * (1 + (config.max_epochs - 1) / 2)
    probes = mixed / 2 * config.group_size
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    gate = 2 * len(split.gate) * config.gate_draws * steps / 2
    test = 2 * len(split.test) * config.test_draws
    count = rollouts + probes + gate + test + _labels(config, split)
    excerpts = min(answer * _BYTES_A_TOKEN, MOST_SHOWN) * config.group_size
    read = len(TEACHER) + prompt * _BYTES_A_TOKEN + excerpts + MOST_TOKENS * _BYTES_A_TOKEN / 2
    taught = LENGTH * config.teacher_max_new_tokens / 2
    return [
        _Calls(count, prompt + MOST_TOKENS / 2, answer),
        _Calls(mixed, read / _BYTES_A_TOKEN, taught, is_teacher=True),
    ]


def _high(config: ExperienceConfig, split: Split) -> list[_Calls]:
    tasks = [*split.train, *split.gate, *split.test]
    prompt = _longest_prompt(tasks, config, MOST_TOKENS)
    groups = len(split.train) * config.max_epochs
    probes = groups * MOST_EDITS * config.group_size
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    gate = 2 * len(split.gate) * config.gate_draws * steps
    test = 2 * len(split.test) * config.test_draws
    room = sum(most_calls(len(split.train), MOST_PER_STEP * step) for step in range(1, steps + 1))
    count = groups * config.group_size + probes + gate + test + room + _labels(config, split)
    excerpts = min(MOST_SHOWN + 100, 4 * config.max_new_tokens + 100) * config.group_size
    read = prompt + excerpts * 4 + len(TEACHER) + 6000  # rejected edits, labels, a second try
    return [
        _Calls(count, prompt, config.max_new_tokens),
        _Calls(2 * groups, read, config.teacher_max_new_tokens, is_teacher=True),
    ]


def _prompt(tasks: Sequence[Task], config: ExperienceConfig) -> float:
    """Returns the mean length of a prompt without lessons, in tokens of four bytes."""
    mean = fmean(len(task_text(task).encode()) for task in tasks) if tasks else 0
    return (mean + len(config.system.encode())) / _BYTES_A_TOKEN + _FRAME


def _longest_prompt(tasks: Sequence[Task], config: ExperienceConfig, lesson_tokens: int) -> int:
    """Returns the longest prompt with lessons, in tokens of one byte."""
    longest = max((len(task_text(task).encode()) for task in tasks), default=0)
    return longest + len(config.system.encode()) + lesson_tokens * _BYTES_A_TOKEN + 8 * _FRAME
