"""What a run may forget: measured before and after, and rows that keep it.

`retention.json` in the run folder has the measurement before the first step, so that a resumed run
compares with the same model. Everything is a function of the model as it was loaded.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.train import TrainConfig
from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.own_tokenizer import own_in
from zoo.gym.data.units import Unit, alone
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.retention import LEAST_RIGHT, Kept, Measured, compare, measure
from zoo.gym.retention.own_answers import FILE, own_answers, read_examples, write_answers
from zoo.gym.retention.questions import prompts, questions
from zoo.gym.train.order import rows_of_step
from zoo.gym.train.plan import Plan
from zoo.gym.train.run_folder.settings import read_env, update_env

if TYPE_CHECKING:
    from zoo.backends.base import Batch, Policy
    from zoo.gym.train.method import Method

BEFORE_FILE = "retention.json"

DEFAULT_SHARE = 0.5
"""`retain` of a model that answers questions: as many rows of its own as of the data. Chosen on
SmolLM2-135M-Instruct, see docs/log.md."""

BATCH_ROWS = 8
"""The rows of a micro-batch of retained ones, of up to 7 learned tokens: the divergence takes four
arrays of these times the vocabulary, 0.14 GB for one of 152,000 words."""

DIGEST_KEY = "retained_sha256"
"""In `env.json` of a run: the digest of its `retained.jsonl`."""

SEED = 0x5EED
"""Added to the seed of the run, so that retained rows have an order of their own."""


def measured_before(policy: "Policy", base: Path, run: Path) -> Measured:
    """Returns what the model answered before the first step; stores it. Collective.

    Args:
        policy: the model as it was loaded.
        base: the folder of its base.
        run: the run folder.

    Raises:
        InputError: the stored measurement is damaged.
    """
    path, ranks = run / BEFORE_FILE, policy.ranks
    if ranks.share(path.is_file() if ranks.is_first else None):
        content = read_json_object(path)
        try:
            return Measured.from_json(content or {})
        except KeyError:
            raise InputError(
                f"{path}: expected the answers before training, got a damaged file",
                hint="remove it: the model is measured again",
                code="train.damaged_file",
            ) from None
    measured = measure(policy, base, own=own_in(read_env(run / "env.json")))
    if ranks.is_first:
        write_beside(path, json.dumps(measured.as_json()) + "\n")
    ranks.meet()
    return measured


def share_of(config: TrainConfig, measured: Measured | None, *, resumes: bool) -> float:
    """Returns the share of a step's rows that are the model's own answers.

    Args:
        config: the settings; in full training `retain` takes a second copy of the model, and is 0
            unless it is given.
        measured: the measurement before training, None if there is none.
        resumes: whether the run has checkpoints; one that began without such rows has none.
    """
    share = _retain(config)
    if share is not None:
        return share
    knows = measured is not None and measured.answers_questions
    return DEFAULT_SHARE if knows and config.trains_adapter and not resumes else 0.0


def retained_units(policy: "Policy", base: Path, run: Path, plan: Plan) -> tuple[Unit, ...]:
    """Returns the model's own answers that a run retains, from the run folder if it has them.

    A run of few steps asks for fewer answers. Collective.

    Args:
        policy: the model as it was loaded.
        base: the folder of its base.
        run: the run folder.
        plan: its plan, with `retain`.

    Raises:
        InputError: the stored answers are missing or changed, or the model has none.
    """
    total = retained_until(plan, plan.steps)
    if not total:
        return ()
    count = min(len(prompts()), total)
    env_file, ranks = run / "env.json", policy.ranks
    if not ranks.share(DIGEST_KEY in read_env(env_file) if ranks.is_first else None):
        answers = own_answers(policy, base, count, own_in(read_env(env_file)))
        if ranks.is_first:
            # the file first, so that a run killed in between asks again
            update_env(env_file, {DIGEST_KEY: write_answers(run / FILE, answers)})
    ranks.meet()
    examples = read_examples(run / FILE, str(read_env(env_file)[DIGEST_KEY]))
    if not examples:
        raise InputError(
            "retain: expected answers of the model to retain, got none: it answers no prompt, or "
            "reads too few tokens",
            hint="retain=0",
            code="train.nothing_to_retain",
        )
    return alone(examples)


def prepare_retained(method: "Method", base: Path, together: ExitStack) -> None:
    """Gives a method the rows that it retains, and the model that they are compared with.

    Args:
        method: with the policy as it was loaded.
        base: the folder of its base.
        together: closes what training needs at its end.
    """
    method.retained = retained_units(method.policy, base, method.folder, method.plan)
    if method.retained:
        method.start = together.enter_context(method.policy.reference())


def retained_until(plan: Plan, step: int) -> int:
    """Returns how many rows the steps up to this one retain: whole rows, spread evenly."""
    share = _retain(plan.config) or 0.0
    return int(step * plan.rows_per_step * share / (1 - share) + 1e-9)


def _retain(config: TrainConfig) -> float | None:
    return config.retain if isinstance(config, RetainingConfig) else None


def retained_of_step(units: tuple[Unit, ...], plan: Plan, step: int) -> list[Unit]:
    """Returns the model's own answers that a step learns, in an order of their own."""
    first, last = retained_until(plan, step - 1), retained_until(plan, step)
    seed = plan.config.seed + SEED
    return [rows_of_step(units, index + 1, 1, seed)[0] for index in range(first, last)]


def retained_batches(units: tuple[Unit, ...], plan: Plan, step: int) -> "list[Batch]":
    """Returns the micro-batches of the retained rows of a step, for `RetentionLoss`."""
    rows = retained_of_step(units, plan, step) if units else []
    constants = {WINDOW_TOKENS: float(sum(unit.learned_tokens for unit in rows))}
    parts = micro_batches(rows, max_units=BATCH_ROWS) if rows else ()
    return [collate(part, constants) for part in parts]


def kept_after(
    policy: "Policy", base: Path, measured: Measured | None, tokens: Mapping[str, object]
) -> Kept | None:
    """Returns what is left after training; None if the model answered too little before."""
    if measured is None or not measured.answers_questions:
        return None
    return compare(measured, measure(policy, base, measured, tokens))


def alarm_of(retained: Kept | None) -> str | None:
    """Returns a warning if more than a tenth of the right answers is lost."""
    if retained is None or not retained.is_alarming:
        return None
    lost = retained.right - retained.kept
    return (
        f"forgetting: {lost} of {retained.right} general questions that the model answered "
        "before are answered wrong now: fewer steps, a lower learning_rate or a larger retain lose "
        "less"
    )


def note_of(measured: Measured, share: float) -> str:
    """Returns a sentence on what the model answers and what is done to keep it."""
    right, asked = sum(measured.right), len(questions())
    if not measured.answers_questions:
        return f"retention is not measured: fewer than {LEAST_RIGHT} of {asked} questions are right"
    added = f"; answers of its own are added to the data, {share:.0%} of all rows"
    ending = added if share else ""
    return f"answers {right} of {asked} general questions right{ending}"
