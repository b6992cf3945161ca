"""The training loop: window, accumulate, step, events.

What differs between methods is in `zoo.gym.train.method`. All randomness derives from
(seed, step, micro-batch), so a resumed run continues the same curve.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

from zoo.gym.errors import InterruptedRunError
from zoo.gym.humanize import counted
from zoo.gym.objectives.retention import RetentionLoss
from zoo.gym.train.accumulate import accumulate_window, require_additive
from zoo.gym.train.answers import Answers
from zoo.gym.train.guards import Divergence, check_first_step, check_labels, check_needs
from zoo.gym.train.loading import warnings_as_events
from zoo.gym.train.method import Method, Window
from zoo.gym.train.order import key_of
from zoo.gym.train.parallel.agreement import check_same_weights
from zoo.gym.train.plan import Plan
from zoo.gym.train.progress import (
    Progress,
    Stopwatch,
    load_best,
    restore,
    save,
    save_best,
    secure_best,
)
from zoo.gym.train.retaining import retained_batches
from zoo.gym.train.schedule import learning_rate

CHECKPOINT_EVERY_S = 120.0


Kind = Literal["step", "eval", "answers", "checkpoint", "retention", "warn"]


class Emit(Protocol):
    """Emits one event to the log of the run."""

    def __call__(self, kind: Kind, /, **fields: object) -> object:
        """Emits an event of that kind; the kinds are in docs/reference/runs.md."""
        ...


@dataclass(frozen=True)
class Job:
    """The inputs of the loop.

    Attributes:
        method: provides the window of each step and the objective; it has the policy (the base
            with a fresh adapter, or all weights) and a complete plan.
        emit: emits an event.
        leaving: called after each step; blocks while the run is paused, and returns "stopped" or
            "parked" if the run is to save and exit, else None.
        checkpoints: the folder of checkpoints.
        answers: asks the model prompts of the data; None for a method whose result answers none.
    """

    method: Method
    emit: Emit
    leaving: Callable[[], str | None]
    checkpoints: Path
    answers: Answers | None = None

    @property
    def plan(self) -> Plan:
        """The run's settings and steps."""
        return self.method.plan


def fit(job: Job) -> Progress:
    """Trains to the plan's last step, from the newest checkpoint if there is one.

    Raises:
        GuardError: the run learns nothing or diverges.
        InterruptedRunError: a stop or park was requested; a checkpoint was written first.
    """
    method, config, steps = job.method, job.plan.config, job.plan.steps
    policy, divergence = method.policy, Divergence()
    prepare(job)
    ranks = policy.ranks
    progress, warnings = ranks.in_turn(lambda: restore(method, job.checkpoints, steps))
    emit_warnings(job, (*warnings, *method.notes()))
    last_save_s, watch = time.monotonic(), Stopwatch()
    if progress.step == 0 and method.held_out:
        evaluate(job, progress)

    while progress.step < steps and not is_over(job, progress):
        step = progress.step + 1
        watch.lap()

        window = method.window(step)
        check_labels(window.learned_tokens, step)
        emit_warnings(job, window.notes)

        metrics = accumulate(method, step, window)
        loss = metrics.pop("loss", 0.0)

        lr = step_rate(job.plan, step)
        info = policy.optimizer_step(lr, config.max_grad_norm)
        if window.learns and not progress.learned:
            check_first_step(info, step)
            progress.learned = True
        divergence.check(step, loss, info)

        wall_s, cpu_s = watch.lap()
        progress.step, progress.tokens = step, progress.tokens + window.learned_tokens
        progress.training_s += wall_s
        progress.training_cpu_s += ranks.total({"cpu_s": cpu_s})["cpu_s"]
        # the seconds left are estimated from the average so far, evaluations included
        spent_s = progress.training_s + progress.evaluation_s
        job.emit(
            "step",
            step=step,
            steps=steps,
            loss=loss,
            **named({**window.metrics, **metrics}),
            lr=lr,
            grad_norm=info.grad_norm,
            skipped=info.skipped,
            tokens=progress.tokens,
            tokens_per_s=window.learned_tokens / max(wall_s, 1e-9),
            eta_s=spent_s / progress.step * (steps - progress.step),
        )

        if method.held_out and is_due(step, config.eval_steps, steps):
            evaluate(job, progress)

        leaving, overdue = decided(job, last_save_s)
        if leaving or overdue or is_due(step, config.save_steps, steps):
            write_checkpoint(job, progress)
            last_save_s = time.monotonic()
        if leaving and step < steps:
            raise InterruptedRunError(f"{leaving} at step {step} of {steps}", code="train.stopped")
    if progress.step < steps:
        end_early(job, progress)
    return progress


def is_over(job: Job, progress: Progress) -> bool:
    """Returns whether `early_stopping_steps` evaluations in a row were not better."""
    patience = job.plan.config.early_stopping_steps or 0
    return 0 < patience <= progress.worse


def end_early(job: Job, progress: Progress) -> None:
    """Reports a run that ends before its last step, and keeps that step."""
    evaluations = counted(progress.worse, "evaluation")
    job.emit(
        "warn",
        message=f"ended at step {progress.step} of {job.plan.steps}: {evaluations} in a row were"
        f" not better than that of step {progress.best_step}, which is the result",
    )
    write_checkpoint(job, progress)


def decided(job: Job, last_save_s: float) -> tuple[str | None, bool]:
    """Returns whether to leave and whether a checkpoint is overdue: the first process decides."""
    ranks = job.method.policy.ranks
    if not ranks.is_first:
        return cast("tuple[str | None, bool]", tuple(ranks.share(None)))
    overdue = time.monotonic() - last_save_s > CHECKPOINT_EVERY_S
    decision = job.leaving(), overdue
    ranks.share(decision)
    return decision


def write_checkpoint(job: Job, progress: Progress) -> None:
    """Writes a checkpoint, after checking that all processes have the same weights."""
    method, config = job.method, job.plan.config
    check_same_weights(method.policy, f"step {progress.step}")
    only, keep = config.save_only_model, config.save_total_limit
    with method.policy.collected(optimizer=not only):
        if method.policy.ranks.is_first:
            folder = save(method, progress, job.checkpoints, only_model=only, keep=keep)
            job.emit("checkpoint", step=progress.step, folder=folder.name)
        method.policy.ranks.meet()


def prepare(job: Job) -> None:
    """Prepares the method; its warnings become events."""
    with warnings_as_events(job.emit):
        job.method.prepare()
    check_needs(job.method)


def emit_warnings(job: Job, messages: Iterable[str]) -> None:
    """Emits a warning for each message."""
    for message in messages:
        job.emit("warn", message=message)


def accumulate(method: Method, step: int, window: Window) -> dict[str, float]:
    """Adds the gradient of a step's window and returns its `loss` and metrics.

    The loss is that of the step's own rows, without what retained ones add to the gradient.
    """
    batches = window.batches
    if step == 1:
        require_additive(method.policy, method.objective, batches)
    retained = retained_batches(method.retained, method.plan, step)
    count = len(batches) + len(retained)
    keys = [key_of(method.plan.config.seed, step, index) for index in range(count)]
    metrics = accumulate_window(method.policy, method.objective, batches, keys, method.teacher)
    if retained:
        keys = keys[len(batches) :]
        extra = accumulate_window(method.policy, RetentionLoss(), retained, keys, method.start)
        metrics |= {name: value for name, value in extra.items() if name != "loss"}
    return metrics


def named(metrics: Mapping[str, float]) -> dict[str, object]:
    """Returns the field of an event for metrics, or no field where there are none.

    Raises:
        ValueError: a name is empty or has characters that cannot be printed.
    """
    for name in metrics:
        if not name or not name.isprintable():
            raise ValueError(f"metrics: expected printable names, got {name!r}")
    return {"metrics": {name: float(value) for name, value in metrics.items()}} if metrics else {}


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
        decay_ratio=config.decay_ratio or 0.0,
    )


def is_due(step: int, every: int | None, steps: int) -> bool:
    """Returns whether something that happens every `every` steps and after the last is due."""
    return step == steps or (every is not None and step % every == 0)


def evaluate(job: Job, progress: Progress) -> None:
    """Evaluates on the held-out rows, and saves the weights if they are the best so far."""
    method, watch = job.method, Stopwatch()
    evaluation = method.evaluate()
    score = method.score(evaluation)
    best = progress.step > 0 and method.improves(score, progress.best_score)
    if progress.step == 0:
        progress.base_score, progress.base_tied = score, method.is_tied(evaluation)
    progress.worse = 0 if best else progress.worse + (progress.step > 0)
    if best:
        progress.best_step, progress.best_score = progress.step, score
        with method.policy.collected(optimizer=False):
            if method.policy.ranks.is_first:
                save_best(dict(method.policy.trained()), progress, job.checkpoints)
    progress.evaluation_s += watch.lap()[0]
    job.emit(
        "eval",
        step=progress.step,
        **({} if evaluation.loss is None else {"loss": float(evaluation.loss)}),
        **named(evaluation.metrics),
        tokens=evaluation.tokens,
        best=best,
    )
    if (doubt := method.doubt(evaluation)) is not None:
        job.emit("warn", message=doubt)
    if job.answers and progress.step and job.answers.is_due():
        job.emit("answers", step=progress.step, answers=job.answers.shown())


def take_best(job: Job, progress: Progress) -> None:
    """Loads the weights of the best step, or evaluates the last step if none were saved."""
    policy = job.method.policy
    warning = secure_best(progress, job.checkpoints)
    if warning is not None:
        job.emit("warn", message=warning)
    if progress.best_step == 0 and job.method.held_out:
        evaluate(job, progress)  # the best was lost; the last step has no score yet
    load_best(policy, progress.best_step, job.checkpoints)
