"""The number format of a run's weights on torch: what the processor multiplies well decides."""

from dataclasses import replace
from pathlib import Path

import pytest

from zoo.backends.memory import MemoryNeed, estimate_memory
from zoo.backends.precision import Precision, Workload
from zoo.backends.torch.numbers import dtypes
from zoo.backends.torch.numbers.dtypes import WIDENED, choose_precision, widening
from zoo.backends.torch.numbers.products import ProductSpeeds
from zoo.models.registry import Geometry

SHAPE = Geometry(hidden=4, layers=2, heads=2, kv_heads=1, head_dim=3, ffn=5, vocab=10, tied=True)
NEED = MemoryNeed(
    SHAPE,
    full=False,
    rank=2,
    tokens=100,
    evaluation_tokens=0,
    checkpointing=True,
    weight_bytes=2,
    hidden_bytes=4,
)
WORK = Workload(parameters=1 << 29, batch_tokens=64, batches=1000, need=NEED)
SLOW = ProductSpeeds(f32_s=0.002, bf16_s=0.2, widened_s=0.0022)
FAST = ProductSpeeds(f32_s=0.002, bf16_s=0.001, widened_s=0.002)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the tiny model for one that is too large for float32 without a thought."""
    monkeypatch.setattr(dtypes, "SMALL_PARAMETERS", 0)


def choose(
    folder: Path, work: Workload | None = WORK, free_bytes: int = 10**12, dtype: str = "auto"
) -> Precision:
    return choose_precision(
        folder, "cpu", lambda: SLOW, dtype=dtype, work=work, free_bytes=free_bytes
    )


def test_a_long_run_with_memory_takes_float32_weights(stored_bf16: Path) -> None:
    # a micro-batch of 64 tokens: 512 products of 1,024 squared, 0.2 ms each to widen, 1.5 times
    share, seconds = widening(WORK, SLOW)
    assert share == pytest.approx(0.1)
    assert seconds == pytest.approx(1000 * 1.5 * 512 * 0.0002)
    found = choose(stored_bf16)
    assert (found.dtype, found.weight_bytes) == ("f32", 4)
    assert "10% more time" in found.reason


def test_a_short_run_takes_float32_weights_if_little_memory_is_needed(stored_bf16: Path) -> None:
    total = estimate_memory(replace(NEED, weight_bytes=4)).total
    short = replace(WORK, batches=100)  # 15 s saved
    assert choose(stored_bf16, short, 4 * total).dtype == "f32"
    assert choose(stored_bf16, short, 4 * total - 1).dtype == WIDENED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "free_bytes"),
    [
        (WORK, 2 * estimate_memory(replace(NEED, weight_bytes=4)).total - 1),
        (replace(WORK, batch_tokens=6400), 10**12),  # a thousandth of the time
        (replace(WORK, need=None), 10**12),
        (None, 10**12),
    ],
)
def test_weights_stay_narrow_where_float32_does_not_pay(
    stored_bf16: Path, work: Workload | None, free_bytes: int
) -> None:
    found = choose(stored_bf16, work, free_bytes)
    assert (found.dtype, found.weight_bytes, found.hidden_bytes) == (WIDENED, 2, 4)


def test_a_format_that_was_given_is_never_replaced(stored_bf16: Path) -> None:
    assert choose(stored_bf16, dtype=WIDENED).dtype == WIDENED


def test_slow_products_that_were_given_get_a_warning(stored_bf16: Path) -> None:
    assert "100 times" in str(choose(stored_bf16, dtype="bf16").warning)
    assert choose(stored_bf16, dtype=WIDENED).warning is None
    on_gpu = choose_precision(stored_bf16, "cuda", lambda: SLOW, dtype="bf16")
    assert on_gpu.warning is None


def test_fast_products_get_none(stored_bf16: Path) -> None:
    assert choose_precision(stored_bf16, "cpu", lambda: FAST, dtype="bf16").warning is None


def test_speeds_are_compared_in_the_words_that_fit() -> None:
    assert SLOW.describe() == "bf16 products take 100 times as long as float32 ones here"
    assert FAST.describe() == "bf16 products are 2 times as fast as float32 ones here"
