"""What a run will need, before its first call: calls, tokens, money; what its gate can see.

Low: no group has better and worse answers, so nothing is proposed, gated or tested. Expected: half
of the groups do at first, and a step's edits are few. High: every group always does, every edit is
probed, every gate needs all its looks, each step makes room in a full library, and each answer is
as long as it may be.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from zoo.gym.experience.learning.gate import LOOKS
from zoo.gym.experience.learning.learn import batches
from zoo.gym.experience.learning.majority import MAJORITY
from zoo.gym.experience.learning.prompts import MOST_EDITS, MOST_SHOWN, TEACHER
from zoo.gym.experience.learning.propose import MOST_PER_STEP
from zoo.gym.experience.learning.retire import most_calls
from zoo.gym.experience.learning.signflip import LEVEL, visible_effect
from zoo.gym.experience.learning.split import Split, same_text, task_text
from zoo.gym.experience.library.library import MOST_TOKENS
from zoo.gym.experience.models import Named
from zoo.gym.experience.settings import ExperienceConfig
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
        if max(numbers) < 100 and any(one != int(one) for one in numbers):
            return " / ".join(f"{one:.2f}" for one in numbers)
        return " / ".join(f"{one:,.0f}" for one in numbers)


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

    def as_json(self) -> dict[str, object]:
        """Returns the figures for programs."""
        return asdict(self)


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
    calls = [sum(one.count for one in case) for case in cases]
    tokens = [sum(one.count * (one.prompt_tokens + one.answer_tokens) for one in c) for c in cases]
    usd = [sum(_usd(one, models) for one in case) for case in cases]
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    level = LEVEL / (steps * LOOKS) if steps else LEVEL
    seen = None
    if split.gate:
        seen = round(_seen(split.gate, config, level), 4)
    return Estimate(
        Amount(*map(round, calls)),
        Amount(*map(round, tokens)),
        Amount(*(round(one, 6) for one in usd)),
        sorted({one.host for one in models.on_servers if not one.is_local}),
        _different(split.gate),
        seen,
    )


def estimate_answers(
    config: ExperienceConfig, tasks: Sequence[Task], models: Named, answers: int, lesson_tokens: int
) -> Estimate:
    """Returns what a command needs that compares lessons on tasks.

    Args:
        config: the model and how its answers are drawn.
        tasks: the tasks.
        models: who answers.
        answers: the most answers to them.
        lesson_tokens: the longest lessons in a prompt, in tokens of four bytes.
    """
    longest = max((len(task_text(task).encode()) for task in tasks), default=0)
    most = longest + len(config.system.encode()) + lesson_tokens * _BYTES_A_TOKEN + 8 * _FRAME
    mean = _prompt(tasks, config) + lesson_tokens / 2
    cases = [
        _Calls(answers, _prompt(tasks, config), 0),
        _Calls(answers, mean, LENGTH * config.max_new_tokens),
        _Calls(answers, most, config.max_new_tokens),
    ]
    tokens = [one.count * (one.prompt_tokens + one.answer_tokens) for one in cases]
    return Estimate(
        Amount(answers, answers, answers),
        Amount(*map(round, tokens)),
        Amount(*(round(_usd(one, models), 6) for one in cases)),
        sorted({one.host for one in models.on_servers if not one.is_local}),
        _different(tasks),
        round(_seen(tasks, config, LEVEL), 4),
    )


def _different(tasks: Sequence[Task]) -> int:
    """Returns how many tasks count: equal texts are one."""
    return len({same_text(task) for task in tasks})


def _seen(tasks: Sequence[Task], config: ExperienceConfig, level: float) -> float:
    return visible_effect(_different(tasks), config.gate_draws, level, VARIANCE)


def _usd(calls: _Calls, models: Named) -> float:
    price = (models.teacher if calls.is_teacher else models.model).price
    if price is None:
        return 0.0
    one = price.usd(round(calls.prompt_tokens), 0, round(calls.answer_tokens))
    return calls.count * one


def _low(config: ExperienceConfig, split: Split) -> list[_Calls]:
    rollouts = len(split.train) * config.max_epochs * config.group_size
    # some tokenizers read eight bytes as one token
    return [_Calls(rollouts + _labels(config, split), _prompt(split.train, config) / 2, 1)]


def _labels(config: ExperienceConfig, split: Split) -> int:
    """Returns the answers that labels take, if there are no known answers."""
    every = len(split.train) + len(split.gate) + len(split.test)
    return every * config.group_size if config.reward == MAJORITY else 0


def _expected(config: ExperienceConfig, split: Split) -> list[_Calls]:
    answer = LENGTH * config.max_new_tokens
    prompt = _prompt(split.train, config) + MOST_TOKENS / 2
    rollouts = len(split.train) * config.max_epochs * config.group_size
    mixed = MIXED * len(split.train) * (1 + (config.max_epochs - 1) / 2)
    probes = mixed / 2 * config.group_size
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    held = 2 * len(split.gate) * config.gate_draws * steps / 2
    test = 2 * len(split.test) * config.test_draws
    seen = _teacher_prompt(split.train, answer, config) / _BYTES_A_TOKEN
    return [
        _Calls(rollouts + probes + held + test + _labels(config, split), prompt, answer),
        _Calls(mixed, seen, LENGTH * config.teacher_max_new_tokens / 2, is_teacher=True),
    ]


def _high(config: ExperienceConfig, split: Split) -> list[_Calls]:
    every = [*split.train, *split.gate, *split.test]
    longest = max((len(task_text(task).encode()) for task in every), default=0)
    prompt = longest + len(config.system.encode()) + MOST_TOKENS * _BYTES_A_TOKEN + 8 * _FRAME
    groups = len(split.train) * config.max_epochs
    probes = groups * MOST_EDITS * config.group_size
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    held = 2 * len(split.gate) * config.gate_draws * steps
    test = 2 * len(split.test) * config.test_draws
    room = sum(most_calls(len(split.train), MOST_PER_STEP * step) for step in range(1, steps + 1))
    answers = groups * config.group_size + probes + held + test + room
    answers += _labels(config, split)
    shown = min(MOST_SHOWN + 100, 4 * config.max_new_tokens + 100) * config.group_size
    read = prompt + shown * 4 + len(TEACHER) + 6000  # rejected edits, labels, a second try
    return [
        _Calls(answers, prompt, config.max_new_tokens),
        _Calls(2 * groups, read, config.teacher_max_new_tokens, is_teacher=True),
    ]


def _prompt(tasks: Sequence[Task], config: ExperienceConfig) -> float:
    """Returns the mean length of a prompt without lessons, in tokens of four bytes."""
    sizes = [len(task_text(task).encode()) for task in tasks]
    mean = sum(sizes) / len(sizes) if sizes else 0
    return (mean + len(config.system.encode())) / _BYTES_A_TOKEN + _FRAME


def _teacher_prompt(tasks: Sequence[Task], answer: float, config: ExperienceConfig) -> float:
    """Returns the mean length of what a teacher reads, in bytes."""
    shown = min(answer * _BYTES_A_TOKEN, MOST_SHOWN) * config.group_size
    own = _prompt(tasks, config) * _BYTES_A_TOKEN
    return len(TEACHER) + own + shown + MOST_TOKENS * _BYTES_A_TOKEN / 2
