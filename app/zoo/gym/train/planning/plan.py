"""Turns settings that were left open into a whole plan, each choice with its reason.

The rules for learning rates pass through what was measured on zen-pico (0.8 M parameters, 2e-3
for LoRA and full weights) and the field's usual values at 0.6 B and 4 B parameters.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zoo.gym.config import TrainConfig, extend_config
from zoo.models.folder import SMALL_PARAMETERS

if TYPE_CHECKING:
    from zoo.backends.memory import MemoryNeed
    from zoo.backends.precision import Precision, Workload

EVALUATION_SHARE = 0.25
"""Evaluations may cost at most this share of the training time."""

EVALUATIONS = 20
CHECKPOINTS = 10


def batch_tokens(parameters: int) -> int:
    """Returns how many tokens are computed at once, in training and in evaluations."""
    return 4096 if parameters < SMALL_PARAMETERS else 2048


@dataclass(frozen=True)
class Facts:
    """What the choices depend on. `parameters` are the base model's; the rest counts the data."""

    parameters: int
    rows: int
    tokens: int
    longest_tokens: int
    held_out_rows: int
    held_out_tokens: int


@dataclass(frozen=True)
class Choice:
    """A setting that was left open, the value taken, and why."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Plan:
    """A run that leaves nothing open.

    Attributes:
        config: every setting given or chosen.
        steps: optimizer steps.
        rows_per_step: rows that each step learns from.
        evaluation_rows: how many of the held-out rows each evaluation reads; 0 for none.
        choices: what was chosen, in the order of choosing.
    """

    config: TrainConfig
    steps: int
    rows_per_step: int
    evaluation_rows: int
    choices: tuple[Choice, ...]


class _Chooser:
    """Takes the user's value where there is one, else ours, and notes why."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.choices: list[Choice] = []

    def pick(self, key: str, value: Any, reason: str) -> Any:  # noqa: ANN401
        given = getattr(self.config, key)
        if given is not None:
            return given
        self.choices.append(Choice(key, value, reason))
        return value

    def finished(self) -> TrainConfig:
        fields = type(self.config).model_fields
        chosen = {choice.key: choice.value for choice in self.choices if choice.key in fields}
        return extend_config(self.config, chosen)


def make_plan(config: TrainConfig, facts: Facts) -> Plan:
    """Chooses every setting that `config` leaves open.

    Raises:
        InputError: a given setting does not go with one that had to be chosen.
    """
    chooser = _Chooser(config)
    rows_per_step = _batch(chooser, facts)
    steps = _steps(chooser, facts, rows_per_step)
    _optimizer(chooser, facts, steps)
    train_tokens = steps * rows_per_step * facts.tokens / facts.rows
    evaluation_rows = _evaluation(chooser, facts, steps, train_tokens)
    every = max(1, math.ceil(steps / CHECKPOINTS))
    chooser.pick("save_steps", every, f"about {CHECKPOINTS} checkpoints, and one every 2 minutes")
    return Plan(chooser.finished(), steps, rows_per_step, evaluation_rows, tuple(chooser.choices))


def _batch(chooser: _Chooser, facts: Facts) -> int:
    """A fortieth of the data a step, within 512 to 16,384 tokens; at most 64 rows."""
    wanted_tokens = min(max(facts.tokens / 40, 512), 16_384)
    wanted_rows = min(max(1, round(wanted_tokens * facts.rows / facts.tokens)), 64, facts.rows)
    at_once = batch_tokens(facts.parameters)
    fitting_rows = max(1, at_once // facts.longest_tokens)
    micro = chooser.pick(
        "per_device_train_batch_size",
        min(wanted_rows, fitting_rows),
        f"rows of up to {facts.longest_tokens} tokens, at most {at_once:,} tokens at once",
    )
    accumulate = chooser.pick(
        "gradient_accumulation_steps",
        max(1, round(wanted_rows / micro)),
        f"about {round(wanted_tokens)} tokens a step, a fortieth of the data",
    )
    return int(micro * accumulate)


def _steps(chooser: _Chooser, facts: Facts, rows_per_step: int) -> int:
    config = chooser.config
    per_epoch = facts.rows / rows_per_step
    if config.max_steps is not None and config.num_train_epochs is None:
        return config.max_steps
    epochs = chooser.pick(
        "num_train_epochs",
        round(min(max(3.0, 100 / per_epoch), 10.0), 2),
        "3, more for little data until there are 100 steps, at most 10",
    )
    total = max(1, math.ceil(epochs * per_epoch))
    return int(
        chooser.pick("max_steps", total, _rows_seen(epochs, total * rows_per_step, facts.rows))
    )


def _rows_seen(epochs: float, seen: int, rows: int) -> str:
    """Says how often the rows are seen: whole steps may be more than was wanted."""
    wanted = f"{epochs:g} times {rows} rows"
    if seen <= 1.05 * epochs * rows:
        return wanted
    return f"{wanted}, rounded up to whole steps: {seen / rows:.3g} times"


def _warmup(ratio: float | None, steps: int) -> tuple[int, str]:
    if ratio is None:
        return min(round(steps / 20), 100), "a twentieth of the steps, at most 100"
    # 0.1 of 30 steps is 3, which floating point makes a little more of
    return min(math.ceil(ratio * steps - 1e-9), steps - 1), f"{ratio:g} of {steps} steps"


def _optimizer(chooser: _Chooser, facts: Facts, steps: int) -> None:
    lora = chooser.config.finetuning_type == "lora"
    rate = default_learning_rate(facts.parameters, lora=lora)
    reason = f"{chooser.config.finetuning_type} on {facts.parameters / 1e6:,.1f} M parameters"
    chooser.pick("learning_rate", rate, reason)
    chooser.pick("lr_scheduler_type", "cosine", "falls gently at both ends")
    chooser.pick("warmup_steps", *_warmup(chooser.config.warmup_ratio, steps))
    if lora:
        chooser.pick("lora_alpha", 2.0 * chooser.config.lora_rank, "twice the rank")
    large = facts.parameters >= SMALL_PARAMETERS
    why = "saves memory" if large else "this model needs little memory"
    chooser.pick("gradient_checkpointing", large, why)


def default_learning_rate(parameters: int, *, lora: bool) -> float:
    """Returns the peak learning rate for a model of that many parameters, two digits long.

    2e-3 up to a million parameters; from there it falls with the size, slower for LoRA:
    2.1e-4 (LoRA) and 2.3e-5 (full) at 0.6 B, 1.1e-4 and 6.0e-6 at 4 B.
    """
    share = min(1.0, 1e6 / parameters)
    return float(f"{2e-3 * share ** (0.35 if lora else 0.7):.1e}")


def _evaluation(chooser: _Chooser, facts: Facts, steps: int, train_tokens: float) -> int:
    """Returns how many held-out rows each evaluation reads; picks `eval_steps`."""
    if not facts.held_out_rows:
        return 0
    # A trained token costs a forward and a backward pass, at least three times a scored one.
    budget_tokens = EVALUATION_SHARE * 3 * train_tokens
    row_tokens = facts.held_out_tokens / facts.held_out_rows
    # One evaluation before the first step is always among them.
    affordable = max(1, int(budget_tokens / row_tokens) - 1)
    wanted = math.ceil(steps / min(EVALUATIONS, affordable, steps))
    every = chooser.pick("eval_steps", wanted, "about 20 evaluations, or fewer if they cost more")
    evaluations = math.ceil(steps / every) + 1
    rows = min(facts.held_out_rows, max(1, int(budget_tokens / row_tokens / evaluations)))
    if rows < facts.held_out_rows:
        reason = f"{rows} of {facts.held_out_rows} held-out rows, a quarter of the training time"
        chooser.choices.append(Choice("evaluation_rows", rows, reason))
    return rows


def workload(plan: Plan, facts: Facts, need: "MemoryNeed | None") -> "Workload":
    """Returns the products of a plan, by which an engine chooses a number format."""
    from zoo.backends.precision import Workload

    rows = plan.config.per_device_train_batch_size or 1
    return Workload(
        parameters=facts.parameters,
        batch_tokens=round(rows * facts.tokens / facts.rows),
        batches=plan.steps * (plan.config.gradient_accumulation_steps or 1),
        need=need,
    )


def with_precision(plan: Plan, precision: "Precision") -> Plan:
    """Returns the plan with the number format chosen, unless it was given or all weights learn."""
    if plan.config.dtype != "auto" or plan.config.finetuning_type == "full":
        return plan
    config = extend_config(plan.config, {"dtype": precision.dtype})
    choice = Choice("dtype", precision.dtype, precision.reason)
    return replace(plan, config=config, choices=(*plan.choices, choice))
