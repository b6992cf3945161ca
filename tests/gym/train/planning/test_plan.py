"""Settings that were left open: what is chosen, and that it is told."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.backends import load_backend
from zoo.gym.config import TrainConfig
from zoo.gym.data import Example, Unit, alone
from zoo.gym.train.plan import EVALUATION_SHARE, FEW_ROWS, Facts, for_engine, make_plan
from zoo.gym.train.rates import default_learning_rate

FACTS = Facts(
    parameters=821_632,
    rows=900,
    tokens=27_000,
    longest_tokens=40,
    held_out_rows=100,
    held_out_tokens=3_000,
)


def config(**settings: object) -> TrainConfig:
    return TrainConfig.model_validate(
        {"model_name_or_path": "zen-pico", "dataset": "data.jsonl", **settings}
    )


facts = st.builds(
    lambda parameters, rows, per_row, held: Facts(
        parameters, rows, rows * per_row, 2 * per_row, held, held * per_row
    ),
    st.integers(10_000, 8_000_000_000),
    st.integers(1, 100_000),
    st.integers(2, 4096),
    st.integers(0, 10_000),
)


@given(found=facts, method=st.sampled_from(["lora", "full"]))
@pytest.mark.slow
def test_a_plan_leaves_nothing_open(found: Facts, method: str) -> None:
    plan = make_plan(config(finetuning_type=method), found)
    settings = plan.config.model_dump()
    needed = {"learning_rate", "max_steps", "warmup_steps", "per_device_train_batch_size"}
    assert not [key for key in needed if settings[key] is None]
    assert plan.steps >= 1
    assert plan.rows_per_step >= 1


@pytest.mark.slow
@given(found=facts)
def test_every_choice_has_a_reason(found: Facts) -> None:
    assert all(choice.reason for choice in make_plan(config(), found).choices)


def test_rows_are_cut_at_the_context_of_the_model_and_the_plan_says_so() -> None:
    plan = make_plan(config(), replace(FACTS, cutoff_len=512))
    chosen = {choice.key: choice.value for choice in plan.choices}
    assert (plan.config.cutoff_len, chosen["cutoff_len"]) == (512, 512)
    assert (
        make_plan(config(cutoff_len=100), replace(FACTS, cutoff_len=100)).config.cutoff_len == 100
    )


@given(found=facts)
def test_a_plan_made_again_from_its_own_settings_is_the_same(found: Facts) -> None:
    first = make_plan(config(), found)
    again = make_plan(first.config, found)
    assert again.config == first.config
    assert (again.steps, again.rows_per_step) == (first.steps, first.rows_per_step)
    assert again.evaluation_rows == first.evaluation_rows


@given(found=facts.filter(lambda f: f.held_out_rows > 0), steps=st.integers(1, 5000))
def test_evaluations_cost_at_most_a_quarter_of_the_training(found: Facts, steps: int) -> None:
    plan = make_plan(config(max_steps=steps), found)
    assert plan.config.eval_steps is not None
    row_tokens = found.held_out_tokens / found.held_out_rows
    evaluations = math.ceil(plan.steps / plan.config.eval_steps) + 1
    cost = evaluations * plan.evaluation_rows * row_tokens
    training = 3 * plan.steps * plan.rows_per_step * found.tokens / found.rows
    # twenty held-out rows before and after, or all: fewer show little
    least = min(found.held_out_rows, FEW_ROWS) * row_tokens
    assert cost <= max(EVALUATION_SHARE * training, evaluations * least) + 1e-6
    if training * EVALUATION_SHARE < evaluations * least:
        assert evaluations == 2


@pytest.mark.parametrize(("held_out", "scored"), [(6, 6), (20, 20), (300, 20)])
def test_a_short_run_scores_twenty_held_out_rows_or_all(held_out: int, scored: int) -> None:
    found = replace(FACTS, held_out_rows=held_out, held_out_tokens=30 * held_out)
    plan = make_plan(config(max_steps=2, per_device_train_batch_size=1), found)
    assert plan.evaluation_rows == scored


def test_what_the_user_gives_stays() -> None:
    plan = make_plan(config(learning_rate=0.3, max_steps=7, eval_steps=2), FACTS)
    assert (plan.config.learning_rate, plan.steps, plan.config.eval_steps) == (0.3, 7, 2)
    assert not {"learning_rate", "max_steps", "eval_steps"} & {c.key for c in plan.choices}


def test_no_held_out_rows_means_no_evaluation() -> None:
    without = Facts(821_632, 900, 27_000, 40, 0, 0)
    plan = make_plan(config(val_size=0), without)
    assert plan.evaluation_rows == 0
    assert plan.config.eval_steps is None


@pytest.mark.parametrize(
    ("parameters", "lora", "rate"),
    [
        (821_632, True, 2e-3),
        (821_632, False, 2e-3),
        (596_049_920, True, 2.1e-4),
        (596_049_920, False, 2.3e-5),
        (4_022_468_096, True, 1.1e-4),
        (4_022_468_096, False, 6.0e-6),
    ],
)
def test_the_learning_rate_falls_with_the_size(parameters: int, lora: bool, rate: float) -> None:
    assert default_learning_rate(parameters, lora=lora) == rate


@pytest.mark.parametrize(
    ("ratio", "steps", "warmup"),
    [(0.1, 30, 3), (0.03, 100, 3), (0.5, 1, 0), (0.99, 3, 2), (0, 9, 0)],
)
def test_a_warmup_is_a_share_of_the_steps(ratio: float, steps: int, warmup: int) -> None:
    plan = make_plan(config(warmup_ratio=ratio, max_steps=steps), FACTS)
    assert plan.config.warmup_steps == warmup
    assert f"{ratio:g} of {steps} steps" in {choice.reason for choice in plan.choices}


def test_warmup_steps_win_over_their_share() -> None:
    plan = make_plan(config(warmup_ratio=0.5, warmup_steps=2, max_steps=10), FACTS)
    assert plan.config.warmup_steps == 2


@pytest.mark.parametrize(
    ("batch", "told"),
    [(10, "1 epoch of 10 rows"), (64, "1 epoch of 10 rows, rounded up to whole steps: 6.4 epochs")],
)
def test_the_reason_shows_epochs_added_by_whole_steps(batch: int, told: str) -> None:
    given = config(
        num_train_epochs=1, per_device_train_batch_size=batch, gradient_accumulation_steps=1
    )
    plan = make_plan(given, replace(FACTS, rows=10, tokens=300))
    assert told in {choice.reason for choice in plan.choices}


def test_steps_that_a_method_chooses_leave_epochs_open() -> None:
    plan = make_plan(config(stage="grpo", reward="numeric"), FACTS)
    assert (plan.steps, plan.config.max_steps, plan.config.num_train_epochs) == (400, 400, None)
    assert "num_train_epochs" not in {choice.key for choice in plan.choices}
    twice = make_plan(config(stage="grpo", reward="numeric", num_train_epochs=2), FACTS)
    assert twice.config.max_steps == math.ceil(2 * FACTS.rows / twice.rows_per_step)


def of_lengths(*lengths: int) -> tuple[Unit, ...]:
    """Units of one row each, with as many tokens."""
    return alone(
        Example(np.arange(count), np.ones(count, np.bool_), "rows:1", truncated=False)
        for count in lengths
    )


@pytest.mark.parametrize(
    ("lengths", "packing", "share"),
    [((100, 40, 100, 40), True, "30%"), ((100, 100, 40, 40), False, "0%"), ((), False, "0%")],
)
def test_rows_are_packed_where_sorting_leaves_much_padding(
    lengths: tuple[int, ...], packing: bool, share: str
) -> None:
    settings = config(per_device_train_batch_size=2, gradient_accumulation_steps=1)
    plan = make_plan(settings, replace(FACTS, units=of_lengths(*lengths)))
    [choice] = [choice for choice in plan.choices if choice.key == "packing"]
    reason = f"batches sorted by length would have {share} padding"
    assert (choice.value, choice.reason) == (packing, reason)


@pytest.mark.parametrize(("engine", "packing"), [("cpu", True), ("mlx", False)])
def test_an_engine_that_pads_rows_is_not_chosen_to_pack_them(engine: str, packing: bool) -> None:
    settings = config(per_device_train_batch_size=2, gradient_accumulation_steps=1)
    facts = replace(FACTS, units=of_lengths(100, 40, 100, 40))
    plan = for_engine(make_plan(settings, facts), load_backend(engine))
    [choice] = [choice for choice in plan.choices if choice.key == "packing"]
    assert plan.config.packing is choice.value is packing
    given = for_engine(
        make_plan(settings.model_copy(update={"packing": True}), facts), load_backend(engine)
    )
    assert given.config.packing is True  # refused when the model is loaded


CODES = [
    ("cpu", {"quantization_bit": 4}, ("bnb", "nf4"), 2),
    ("cpu", {"quantization_bit": 8}, ("bnb", None), 1),
    ("cpu", {"quantization_bit": 4, "quantization_type": "fp4"}, ("bnb", "fp4"), 1),
    ("mlx", {"quantization_bit": 4}, ("mlx", None), 1),
    ("mlx", {"quantization_bit": 4, "double_quantization": False}, ("bnb", "nf4"), 2),
    ("cpu", {}, (None, None), 0),
]


@pytest.mark.parametrize(("engine", "given", "expected", "chosen"), CODES)
def test_the_codes_of_a_base_are_chosen_by_the_engine(
    engine: str, given: dict[str, object], expected: tuple[str | None, str | None], chosen: int
) -> None:
    plan = for_engine(make_plan(config(**given), FACTS), load_backend(engine))
    assert (plan.config.quantization_method, plan.config.quantization_type) == expected
    assert len([one for one in plan.choices if one.key.startswith("quantization_")]) == chosen


def test_rows_with_a_common_prompt_are_not_packed_by_default() -> None:
    [one, other] = of_lengths(100, 20)
    found = replace(FACTS, units=(Unit((*one.rows, *other.rows)),))
    assert make_plan(config(), found).config.packing is False
    assert make_plan(config(packing=True), found).config.packing is True


def test_runs_on_rewards_end_after_half_of_their_evaluations_without_a_better_one() -> None:
    rewarded = make_plan(config(stage="grpo", reward="numeric"), FACTS).config
    assert rewarded.max_steps is not None
    assert rewarded.eval_steps is not None
    evaluations = math.ceil(rewarded.max_steps / rewarded.eval_steps) + 1
    assert rewarded.early_stopping_steps == evaluations // 2
    given = config(stage="grpo", reward="numeric", early_stopping_steps=0)
    assert make_plan(given, FACTS).config.early_stopping_steps == 0
    assert make_plan(config(), FACTS).config.early_stopping_steps == 0
