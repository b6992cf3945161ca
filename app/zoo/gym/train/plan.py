"""Completes the settings to a plan: a default for each open one, with the reason."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zoo.gym.config import TrainConfig, extend_config
from zoo.gym.config.stages import load_method
from zoo.gym.config.tuning import LORA
from zoo.gym.humanize import counted
from zoo.gym.train.rates import chosen_rate
from zoo.models.folder import SMALL_PARAMETERS

if TYPE_CHECKING:
    from zoo.backends.base import Backend
    from zoo.backends.memory import MemoryNeed
    from zoo.backends.precision import Precision, Workload
    from zoo.gym.data.units import Unit

EVALUATION_SHARE = 0.25
"""Evaluations may cost at most this share of the training time."""

EVALUATIONS = 20
EVALUATION_ROWS = 2000
"""The most rows of an evaluation: more would hardly change it, and they are kept in memory."""

FEW_ROWS = 20
"""Fewer held-out rows show little: no evaluation scores fewer if there are as many."""

CHECKPOINTS = 10

LEAST_TOKENS, LEAST_TOKENS_OF_A_SMALL_MODEL = 320, 512
"""The tokens of a step on little data."""

LEAST_STEPS, LEAST_STEPS_OF_A_SMALL_MODEL = 32, 100
"""The steps that more than three epochs are to reach. A pretrained model learns 40 short rows in
32, and forgets more in 100; see docs/log.md."""

TURN_STEPS = 50
"""The steps that badam trains a layer in its paper and package."""

LEAST_PADDING = 0.1
"""The share of padding from which rows are computed without it by default."""


def batch_tokens(parameters: int) -> int:
    """Returns the limit of tokens per micro-batch, in training and in evaluations."""
    return 4096 if parameters < SMALL_PARAMETERS else 2048


@dataclass(frozen=True)
class Facts:
    """What the choices depend on: the parameters of the base model, and the size of the data.

    `cutoff_len` is the maximum length of a row, the model's context if that is shorter; `units` are
    what is learned from, and `rows_per_unit` the number of rows that each becomes in a step;
    `layers` are those of the model, 0 if its architecture is unknown.
    """

    parameters: int
    rows: int
    tokens: int
    longest_tokens: int
    held_out_rows: int
    held_out_tokens: int
    cutoff_len: int = 2048
    units: "Sequence[Unit]" = ()
    rows_per_unit: int = 1
    layers: int = 0


@dataclass(frozen=True)
class Choice:
    """A setting that was left open, the chosen value, and the reason."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Plan:
    """The complete settings of a run.

    Attributes:
        config: all settings, given or chosen.
        steps: optimizer steps.
        rows_per_step: rows that each step learns from.
        evaluation_rows: the number of held-out rows that each evaluation scores; 0 for none.
        choices: what was chosen, in the order of choosing.
    """

    config: TrainConfig
    steps: int
    rows_per_step: int
    evaluation_rows: int
    choices: tuple[Choice, ...]


class _Chooser:
    """Takes the user's value if there is one, else the default, and records the reason."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.choices: list[Choice] = []
        self.values: dict[str, Any] = {}

    def pick(self, key: str, value: Any, reason: str) -> Any:  # noqa: ANN401
        stated = getattr(self.config, key)
        if stated is not None and stated != "auto":
            return stated
        if key in self.values:
            return self.values[key]
        return self.replace(key, value, reason)

    def replace(self, key: str, value: Any, reason: str) -> Any:  # noqa: ANN401
        """Chooses a value whatever the setting was."""
        self.values[key] = value
        self.choices.append(Choice(key, value, reason))
        return value

    def finished(self) -> TrainConfig:
        fields = type(self.config).model_fields
        chosen = {choice.key: choice.value for choice in self.choices if choice.key in fields}
        return extend_config(self.config, chosen)


def make_plan(config: TrainConfig, facts: Facts) -> Plan:
    """Chooses a value for every setting that `config` leaves open.

    Raises:
        InputError: a given setting is incompatible with a chosen one.
    """
    chooser = _Chooser(config)
    if facts.cutoff_len < config.cutoff_len:
        reason = "the context of the model: it reads no more tokens of a row"
        chooser.replace("cutoff_len", facts.cutoff_len, reason)
    for choice in load_method(config.stage).choices(config, facts):
        chooser.pick(choice.key, choice.value, choice.reason)
    rows_per_step = _batch(chooser, facts)
    steps = _steps(chooser, facts, rows_per_step)
    _optimizer(chooser, facts, steps)
    _packing(chooser, facts, rows_per_step)
    seen_tokens = facts.rows_per_unit * facts.tokens / facts.rows
    train_tokens = steps * rows_per_step * seen_tokens
    evaluation_rows = _evaluation(chooser, facts, steps, train_tokens)
    every = max(1, math.ceil(steps / CHECKPOINTS))
    reason = f"about {CHECKPOINTS} checkpoints, in addition to one every 2 minutes"
    chooser.pick("save_steps", every, reason)
    return Plan(chooser.finished(), steps, rows_per_step, evaluation_rows, tuple(chooser.choices))


def _batch(chooser: _Chooser, facts: Facts) -> int:
    """1/40 of the data per step, within limits: at most 16,384 tokens and 64 rows."""
    small = facts.parameters < SMALL_PARAMETERS
    least = LEAST_TOKENS_OF_A_SMALL_MODEL if small else LEAST_TOKENS
    wanted_tokens = min(max(facts.tokens / 40, least), 16_384)
    wanted_rows = min(max(1, round(wanted_tokens * facts.rows / facts.tokens)), 64, facts.rows)
    processes = chooser.config.num_processes
    at_once = batch_tokens(facts.parameters)
    fitting_rows = max(1, at_once // facts.longest_tokens)
    micro = chooser.pick(
        "per_device_train_batch_size",
        min(math.ceil(wanted_rows / processes), fitting_rows),
        f"rows have up to {facts.longest_tokens} tokens, a micro-batch at most {at_once:,}",
    )
    accumulate = chooser.pick(
        "gradient_accumulation_steps",
        max(1, round(wanted_rows / (micro * processes))),
        f"about {round(wanted_tokens)} tokens per step: 1/40 of the data, within limits",
    )
    return int(micro * accumulate * processes)


def _steps(chooser: _Chooser, facts: Facts, rows_per_step: int) -> int:
    config = chooser.config
    per_epoch = facts.rows / rows_per_step
    if config.num_train_epochs is None:
        steps = chooser.values.get("max_steps") if config.max_steps is None else config.max_steps
        if steps is not None:
            return int(steps)
    small = facts.parameters < SMALL_PARAMETERS
    least = LEAST_STEPS_OF_A_SMALL_MODEL if small else LEAST_STEPS
    epochs = chooser.pick(
        "num_train_epochs",
        round(min(max(3.0, least / per_epoch), 10.0), 2),
        f"3, or up to 10 to reach {least} steps",
    )
    total = max(1, math.ceil(epochs * per_epoch))
    return int(
        chooser.pick("max_steps", total, _rows_seen(epochs, total * rows_per_step, facts.rows))
    )


def _rows_seen(epochs: float, seen: int, rows: int) -> str:
    """Returns a reason with the number of passes over the rows, after rounding to whole steps."""
    asked = f"{_epochs(epochs)} of {counted(rows, 'row')}"
    if seen <= 1.05 * epochs * rows:
        return asked
    return f"{asked}, rounded up to whole steps: {_epochs(seen / rows)}"


def _epochs(number: float) -> str:
    text = f"{round(number, 2):g}"
    return f"{text} epoch" if text == "1" else f"{text} epochs"


def _warmup(ratio: float | None, steps: int) -> tuple[int, str]:
    if ratio is None:
        return min(round(steps / 20), 100), "5% of the steps, at most 100"
    # in floating point, 0.1 * 30 is slightly more than 3
    return min(math.ceil(ratio * steps - 1e-9), steps - 1), f"{ratio:g} of {steps} steps"


def _optimizer(chooser: _Chooser, facts: Facts, steps: int) -> None:
    lora = chooser.config.finetuning_type in LORA
    chooser.pick("learning_rate", *chosen_rate(chooser.config, facts.parameters))
    schedule = chooser.pick("lr_scheduler_type", "cosine", "decays smoothly towards zero")
    stable = steps
    if schedule == "wsd":
        ratio = chooser.pick("decay_ratio", 0.1, "the last tenth of the steps")
        stable = math.floor(steps * (1 - ratio))
    warmup, reason = _warmup(chooser.config.warmup_ratio, steps)
    is_given = chooser.config.warmup_ratio is not None
    chooser.pick("warmup_steps", warmup if is_given else min(warmup, stable), reason)
    if lora and chooser.config.adapter_name_or_path is None:
        chooser.pick("lora_alpha", 2.0 * chooser.config.lora_rank, "twice lora_rank")
    if chooser.config.optim == "badam" and chooser.config.badam_switch_mode != "fixed":
        _turns(chooser, facts, steps)
    large = facts.parameters >= SMALL_PARAMETERS or chooser.config.stream_layers
    large = large or chooser.config.activation_offloading
    why = "saves memory" if large else "not needed: the model is small"
    chooser.pick("gradient_checkpointing", large, why)


def _turns(chooser: _Chooser, facts: Facts, steps: int) -> None:
    """Chooses how long badam trains each layer, and says how many layers have a turn."""
    config, layers = chooser.config, facts.layers
    if config.finetuning_type == "freeze":
        layers = abs(config.freeze_trainable_layers)
    fair = min(TURN_STEPS, max(1, steps // max(1, layers)))
    reason = "at most 50, so that every layer has a turn"
    interval = chooser.pick("badam_switch_interval", fair, reason)
    turns = math.ceil(steps / interval)
    if turns < layers:
        reason = f"of {layers}: {counted(steps, 'step')}, {interval} for each layer"
        chooser.choices.append(Choice("badam_layers", turns, reason))


def _packing(chooser: _Chooser, facts: Facts, rows_per_step: int) -> None:
    """Packs if batches sorted by length would have much padding, and rows share no prompts."""
    if any(len(unit.rows) > 1 for unit in facts.units) or facts.rows_per_unit > 1:
        reason = "rows with the same prompt are computed together instead"
        chooser.pick("packing", False, reason)  # noqa: FBT003 - the value of a setting
        return
    rows = chooser.finished().per_device_train_batch_size or 1
    share = padding_share([unit.tokens for unit in facts.units], rows_per_step, rows)
    reason = f"batches sorted by length would have {share:.0%} padding"
    chooser.pick("packing", share >= LEAST_PADDING, reason)


def padding_share(lengths: Sequence[int], rows_per_step: int, rows_per_batch: int) -> float:
    """Returns the share of padding in batches that are sorted by length within each step."""
    real = padded = 0
    for start in range(0, len(lengths), rows_per_step):
        step = sorted(lengths[start : start + rows_per_step], reverse=True)
        for first in range(0, len(step), rows_per_batch):
            batch = step[first : first + rows_per_batch]
            real, padded = real + sum(batch), padded + len(batch) * batch[0]
    return 1 - real / padded if padded else 0.0


def _evaluation(chooser: _Chooser, facts: Facts, steps: int, train_tokens: float) -> int:
    """Returns how many held-out rows each evaluation scores; chooses `eval_steps`."""
    if not facts.held_out_rows:
        return 0
    # A trained token costs a forward and a backward pass, at least three times a scored one.
    budget_tokens = EVALUATION_SHARE * 3 * train_tokens
    row_tokens = facts.held_out_tokens / facts.held_out_rows
    least = min(facts.held_out_rows, FEW_ROWS)
    # One of them is the evaluation before the first step.
    affordable = max(1, int(budget_tokens / row_tokens / least) - 1)
    count = math.ceil(steps / min(EVALUATIONS, affordable, steps))
    every = chooser.pick("eval_steps", count, "about 20 evaluations, fewer if they take too long")
    evaluations = math.ceil(steps / every) + 1
    chooser.pick("early_stopping_steps", evaluations // 2, "half of the evaluations")
    affordable_rows = max(least, int(budget_tokens / row_tokens / evaluations))
    rows = min(facts.held_out_rows, affordable_rows, EVALUATION_ROWS)
    if rows < facts.held_out_rows:
        limit = "the most" if rows < affordable_rows else "about 25% of the training time"
        reason = f"{rows} of {facts.held_out_rows} held-out rows, {limit}"
        chooser.choices.append(Choice("evaluation_rows", rows, reason))
    return rows


def workload(plan: Plan, facts: Facts, need: "MemoryNeed | None") -> "Workload":
    """Returns the amount of computation in a plan, from which an engine chooses a number format."""
    from zoo.backends.precision import Workload

    rows = plan.config.per_device_train_batch_size or 1
    return Workload(
        parameters=facts.parameters,
        batch_tokens=round(rows * facts.tokens / facts.rows),
        batches=plan.steps * (plan.config.gradient_accumulation_steps or 1),
        need=need,
    )


def for_engine(plan: Plan, engine: "Backend") -> Plan:
    """Returns the plan as an engine follows it: with its codes, and padded if it cannot pack."""
    return _with_padding(_with_codes(plan, engine), engine)


def _with_codes(plan: Plan, engine: "Backend") -> Plan:
    """Returns the plan with the codes of a quantised base that were left open."""
    config, choices = plan.config, list[Choice]()
    if config.quantization_bit is None:
        return plan
    if config.quantization_method is None:
        of_mlx = engine.name == "mlx" and not config.names_codes_of_bnb
        name, what = ("mlx", "MLX's own codes") if of_mlx else ("bnb", "bitsandbytes, with torch")
        choices.append(Choice("quantization_method", name, what))
    method = choices[0].value if choices else config.quantization_method
    if method == "bnb" and config.quantization_bit == 4 and config.quantization_type is None:
        reason = "fits normally distributed weights"
        choices.append(Choice("quantization_type", "nf4", reason))
    config = extend_config(config, {choice.key: choice.value for choice in choices})
    return replace(plan, config=config, choices=(*plan.choices, *choices))


def _with_padding(plan: Plan, engine: "Backend") -> Plan:
    """Returns the plan without a chosen packing that the engine does not have."""
    if not engine.pads or not any(entry.key == "packing" and entry.value for entry in plan.choices):
        return plan
    choice = Choice("packing", False, f"{engine.name} computes rows with padding")  # noqa: FBT003
    rest = tuple(entry for entry in plan.choices if entry.key != "packing")
    config = extend_config(plan.config, {"packing": False})
    return replace(plan, config=config, choices=(*rest, choice))


def with_precision(plan: Plan, precision: "Precision") -> Plan:
    """Returns the plan with the number format, unless it was given or all weights are trained."""
    if plan.config.dtype != "auto" or not plan.config.trains_adapter:
        return plan
    config = extend_config(plan.config, {"dtype": precision.dtype})
    choice = Choice("dtype", precision.dtype, precision.reason)
    return replace(plan, config=config, choices=(*plan.choices, choice))
