"""The training loop: batch, accumulate, step, events.

It reads straight down. Everything random derives from (seed, step, micro-batch), so a resumed run
continues the same curve.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.errors import InterruptedRunError
from zoo.gym.evaluate.held_out import held_out
from zoo.gym.objectives.sft import WINDOW_TOKENS, SupervisedLoss
from zoo.gym.train.accumulate import accumulate_window
from zoo.gym.train.guards import Divergence, check_first_step, check_labels
from zoo.gym.train.order import key_of, rows_of_step
from zoo.gym.train.planning.plan import Plan, batch_tokens
from zoo.gym.train.progress import (
    Progress,
    Stopwatch,
    load_best,
    restore,
    save,
    save_best,
    secure_best,
)
from zoo.gym.train.schedule import learning_rate

if TYPE_CHECKING:
    from zoo.backends.base import Batch, Policy
    from zoo.gym.data.encode import Example

CHECKPOINT_EVERY_S = 120.0


Kind = Literal["step", "eval", "checkpoint", "warn"]


class Emit(Protocol):
    """Tells one event to whoever follows the run."""

    def __call__(self, kind: Kind, /, **fields: object) -> object:
        """Tells an event of that kind; the kinds are in docs/reference/runs.md."""
        ...


@dataclass(frozen=True)
class Job:
    """What the loop works with.

    Attributes:
        policy: with its base weights and fresh adapter, or all weights.
        plan: leaves nothing open.
        rows: to learn from.
        held_out: the rows that every evaluation reads; may be empty.
        emit: tells an event.
        leaving: called after each step; holds while the run is paused, and returns why to save
            and leave, or None.
        checkpoints: the folder of checkpoints.
    """

    policy: "Policy"
    plan: Plan
    rows: "Sequence[Example]"
    held_out: "Sequence[Example]"
    emit: Emit
    leaving: Callable[[], str | None]
    checkpoints: Path


def fit(job: Job) -> Progress:
    """Trains to the plan's last step, from the newest checkpoint if there is one.

    Raises:
        GuardError: the run would learn nothing.
        InterruptedRunError: a stop or park was asked for; a checkpoint was written first.
    """
    config, steps = job.plan.config, job.plan.steps
    objective, divergence = SupervisedLoss(), Divergence()
    progress, warnings = restore(job.policy, job.checkpoints, steps)
    for warning in warnings:
        job.emit("warn", message=warning)
    last_save_s, watch = time.monotonic(), Stopwatch()
    if progress.step == 0 and job.held_out:
        evaluate(job, progress)

    while progress.step < steps:
        step = progress.step + 1
        watch.lap()

        batches = window(job, step)
        learned_tokens = sum(int(batch.loss_mask_BT.sum()) for batch in batches)
        check_labels(learned_tokens, step)

        keys = [key_of(config.seed, step, place) for place in range(len(batches))]
        metrics = accumulate_window(job.policy, objective, batches, keys)
        loss = metrics.pop("loss")

        lr = step_rate(job.plan, step)
        info = job.policy.optimizer_step(lr, config.max_grad_norm)
        if step == 1:
            check_first_step(info)
        divergence.check(step, loss, info)

        wall_s, cpu_s = watch.lap()
        progress.step, progress.tokens = step, progress.tokens + learned_tokens
        progress.training_s += wall_s
        progress.training_cpu_s += cpu_s
        job.emit(
            "step",
            step=step,
            steps=steps,
            loss=loss,
            metrics=metrics,
            lr=lr,
            grad_norm=info.grad_norm,
            skipped=info.skipped,
            tokens=progress.tokens,
            tokens_per_s=learned_tokens / max(wall_s, 1e-9),
            eta_s=remaining_s(progress, steps),
        )

        if job.held_out and is_due(step, config.eval_steps, steps):
            evaluate(job, progress)

        leaving = job.leaving()
        overdue = time.monotonic() - last_save_s > CHECKPOINT_EVERY_S
        if leaving or overdue or is_due(step, config.save_steps, steps):
            only = config.save_only_model
            folder = save(job.policy, progress, job.checkpoints, only_model=only)
            last_save_s = time.monotonic()
            job.emit("checkpoint", step=step, folder=folder.name)
        if leaving and step < steps:
            raise InterruptedRunError(f"{leaving} at step {step} of {steps}")
    return progress


def window(job: Job, step: int) -> "list[Batch]":
    """Returns the micro-batches of one step, with the constants of the whole window."""
    config = job.plan.config
    rows = rows_of_step(job.rows, step, job.plan.rows_per_step, config.seed)
    constants = {WINDOW_TOKENS: float(sum(int(row.mask.sum()) for row in rows))}
    max_rows = config.per_device_train_batch_size
    return [collate(part, constants) for part in micro_batches(rows, max_rows=max_rows)]


def step_rate(plan: Plan, step: int) -> float:
    """Returns the learning rate of a step."""
    config = plan.config
    assert config.learning_rate is not None
    assert config.warmup_steps is not None
    assert config.lr_scheduler_type is not None
    return learning_rate(
        step,
        peak=config.learning_rate,
        steps=plan.steps,
        warmup_steps=config.warmup_steps,
        shape=config.lr_scheduler_type,
    )


def is_due(step: int, every: int | None, steps: int) -> bool:
    """Returns whether something that happens every so many steps, and at the end, is due."""
    return step == steps or (every is not None and step % every == 0)


def remaining_s(progress: Progress, steps: int) -> float:
    """Returns the seconds that are left, evaluations included, at the speed so far."""
    spent_s = progress.training_s + progress.evaluation_s
    return spent_s / progress.step * (steps - progress.step)


def evaluate(job: Job, progress: Progress) -> None:
    """Scores the held-out rows, notes the loss, and keeps the weights of the best step."""
    watch = Stopwatch()
    limit = batch_tokens(job.policy.parameter_count())
    score = held_out(job.policy, job.held_out, max_batch_tokens=limit)
    lowest = math.inf if progress.best_loss is None else progress.best_loss
    best = progress.step > 0 and score.loss < lowest
    if progress.step == 0:
        progress.base_loss = score.loss
    if best:
        progress.best_step, progress.best_loss = progress.step, score.loss
        save_best(job.policy, progress, job.checkpoints)
    progress.evaluation_s += watch.lap()[0]
    job.emit("eval", step=progress.step, loss=score.loss, tokens=score.tokens, best=best)


def take_best(job: Job, progress: Progress) -> None:
    """Puts the best step's weights into the policy, or scores the last step's if none are kept."""
    warning = secure_best(job.policy, progress, job.checkpoints)
    if warning is not None:
        job.emit("warn", message=warning)
    if progress.best_step == 0 and job.held_out:
        evaluate(job, progress)  # a lost best leaves weights whose loss is not known any more
    load_best(job.policy, progress.best_step, job.checkpoints)
