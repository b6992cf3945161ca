"""The number format of a run's weights: chosen from what the processor multiplies well."""

from dataclasses import replace

import pytest

from zoo.backends.torch import load
from zoo.backends.torch.products import ProductSpeeds
from zoo.gym.config import TrainConfig
from zoo.gym.train import dtype
from zoo.gym.train.dtype import slow_products, widening, with_dtype, with_float32
from zoo.gym.train.memory import Need, estimate
from zoo.gym.train.plan import Facts, Plan, make_plan
from zoo.models import resolve
from zoo.models.registry import Geometry

SHAPE = Geometry(hidden=4, layers=2, heads=2, kv_heads=1, head_dim=3, ffn=5, vocab=10, tied=True)
NEED = Need(
    SHAPE,
    full=False,
    rank=2,
    tokens=100,
    evaluation_tokens=0,
    checkpointing=True,
    weight_bytes=2,
    hidden_bytes=4,
)
FACTS = Facts(
    parameters=1 << 29,
    rows=100,
    tokens=6400,
    longest_tokens=64,
    held_out_rows=0,
    held_out_tokens=0,
)
SLOW = ProductSpeeds(f32_s=0.002, bf16_s=0.2, widened_s=0.0022)
FAST = ProductSpeeds(f32_s=0.002, bf16_s=0.001, widened_s=0.002)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without bf16 arithmetic, and zen-pico as if it were large and stored in bf16."""
    monkeypatch.setattr(dtype, "product_speeds", lambda: SLOW)
    choice = load.DtypeChoice("bf16-widened", "bf16 is slow here")
    monkeypatch.setattr(load, "choose_dtype", lambda *_: choice)


def plan(**settings: object) -> Plan:
    given = {"model_name_or_path": "zen-pico", "dataset": ("a.jsonl",), "max_steps": 1000}
    given |= {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 1}
    return make_plan(TrainConfig.model_validate(given | settings), FACTS)


def chosen(**settings: object) -> Plan:
    return with_dtype(plan(**settings), resolve("zen-pico").folder, "cpu")


def test_the_choice_is_stored_and_told_with_its_reason() -> None:
    found = chosen()
    assert found.config.dtype == "f32"
    assert found.choices[-1].key == "dtype"
    assert "small model" in found.choices[-1].reason


@pytest.mark.parametrize("settings", [{"dtype": "bf16"}, {"finetuning_type": "full"}])
@pytest.mark.usefixtures("slow")
def test_a_given_format_and_full_weights_are_left_alone(settings: dict[str, object]) -> None:
    assert chosen(**settings) == plan(**settings)


@pytest.mark.usefixtures("slow")
def test_a_long_run_with_memory_takes_float32_weights() -> None:
    # a micro-batch of 64 tokens: 512 products of 1,024 squared, 0.2 ms each to widen, 1.5 times
    share, seconds = widening(chosen(), FACTS, SLOW)
    assert share == pytest.approx(0.1)
    assert seconds == pytest.approx(1000 * 1.5 * 512 * 0.0002)
    found = with_float32(chosen(), FACTS, NEED, free_bytes=10**12)
    assert found.config.dtype == "f32"
    assert [choice.key for choice in found.choices].count("dtype") == 1


@pytest.mark.parametrize(
    ("settings", "free_bytes"),
    [
        ({"max_steps": 100}, 10**12),  # 15 s saved
        ({}, 2 * estimate(replace(NEED, weight_bytes=4)).total - 1),
        ({"per_device_train_batch_size": 100}, 10**12),  # a thousandth of the time
    ],
)
@pytest.mark.usefixtures("slow")
def test_weights_stay_narrow_where_float32_does_not_pay(
    settings: dict[str, object], free_bytes: int
) -> None:
    assert with_float32(chosen(**settings), FACTS, NEED, free_bytes) == chosen(**settings)


@pytest.mark.usefixtures("slow")
def test_a_format_that_was_given_is_never_replaced() -> None:
    given = chosen(dtype="bf16-widened")
    assert with_float32(given, FACTS, NEED, free_bytes=10**12) == given


@pytest.mark.usefixtures("slow")
def test_slow_products_that_were_asked_for_are_reported() -> None:
    assert "100 times" in str(slow_products(plan(dtype="bf16"), "cpu"))
    assert slow_products(plan(dtype="bf16"), "cuda") is None
    assert slow_products(plan(dtype="bf16-widened"), "cpu") is None


def test_fast_products_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtype, "product_speeds", lambda: FAST)
    assert slow_products(plan(dtype="bf16"), "cpu") is None


def test_speeds_are_compared_in_the_words_that_fit() -> None:
    assert SLOW.describe() == "bf16 products take 100 times as long as float32 ones here"
    assert FAST.describe() == "bf16 products are 2 times as fast as float32 ones here"
