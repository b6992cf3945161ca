"""The same bytes from every instruction set and number of threads, and the rules of new options."""

import threading
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from zoo.core import apply_signs, available_isas, pack_signs, unpack_signs
from zoo.core.errors import InputError

Scale = Literal["row", "matrix", "column", "group"]
SCALES: list[Scale] = ["row", "matrix", "column", "group"]


def random_matrices(seed: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Two matrices; a fifth of the differences is zero, some values are subnormal or -0.0."""
    random = np.random.default_rng(seed)
    pair = random.standard_normal((2, *shape)).astype(np.float32)
    pair *= np.float32(10) ** random.integers(-44, 3, shape)
    equal = random.random(shape) < 0.2
    pair[1][equal] = pair[0][equal]
    pair[0][random.random(shape) < 0.1] = -0.0
    return pair


def everything(
    pair: NDArray[np.float32], scale: Scale, dtype: torch.dtype, isa: Any, threads: int
) -> bytes:
    base, tuned = (torch.from_numpy(matrix).to(dtype, copy=True) for matrix in pair)
    options: Any = {"scale": scale, "group": 24, "isa": isa, "threads": threads}
    bits, scales, mask = pack_signs(base, tuned, zeros="mask", **options)
    signs = unpack_signs(bits, base.shape[1], mask=mask, isa=isa, threads=threads)
    apply_signs(base, bits, scales, mask=mask, **options)
    applied = base.view(torch.uint8).numpy()
    return b"".join(part.tobytes() for part in (bits, scales, mask, signs, applied))


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shape=st.tuples(st.sampled_from([1, 2, 129, 300]), st.sampled_from([1, 7, 33, 257, 4100])),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
)
def test_every_instruction_set_and_number_of_threads_gives_the_same_bytes(
    scale: Scale, seed: int, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    pair = random_matrices(seed, shape)
    expected = everything(pair, scale, dtype, "scalar", 1)
    for isa in available_isas():
        for threads in (1, 2, 8):
            assert everything(pair, scale, dtype, isa, threads) == expected, (isa, threads)


def mean_of(values: NDArray[np.float32], *, nonzero: bool) -> np.float32:
    """The scale of what fits one block: 32 lanes in float32, then float64 in order."""
    size = np.abs(values)
    lanes = np.zeros(32, np.float32)
    for at, value in enumerate(size):
        lanes[at % 32] += value
    total = np.cumsum(lanes.astype(np.float64))[-1]
    count = np.count_nonzero(size) if nonzero else len(size)
    return np.float32(total / count) if count else np.float32(0)


@pytest.mark.parametrize("nonzero", [False, True])
@given(seed=st.integers(0, 2**32), cols=st.sampled_from([1, 23, 24, 25, 100]))
def test_a_group_has_the_mean_of_its_own_values(nonzero: bool, seed: int, cols: int) -> None:
    base, tuned = random_matrices(seed, (3, cols))
    zeros: Any = "mask" if nonzero else "minus"
    scales = pack_signs(base, tuned, scale="group", group=24, zeros=zeros)[1]
    groups = [row[at : at + 24] for row in tuned - base for at in range(0, cols, 24)]
    expected = np.array([mean_of(group, nonzero=nonzero) for group in groups], np.float32)
    assert scales.tobytes() == expected.tobytes()
    assert scales.shape == (3, -(-cols // 24))


@given(seed=st.integers(0, 2**32), rows=st.sampled_from([1, 127, 128, 129, 300]))
def test_a_column_is_added_in_blocks_of_128_rows(seed: int, rows: int) -> None:
    base, tuned = random_matrices(seed, (rows, 5))
    size, total = np.abs(tuned - base), np.zeros(5)
    for start in range(0, rows, 128):
        block = np.zeros(5, np.float32)
        for row in size[start : start + 128]:
            block += row
        total += block
    scales = pack_signs(base, tuned, scale="column")[1]
    assert scales.tobytes() == (total / rows).astype(np.float32).tobytes()


@given(seed=st.integers(0, 2**32))
def test_a_mask_keeps_the_bytes_of_what_did_not_change(seed: int) -> None:
    base, tuned = random_matrices(seed, (3, 77))
    bits, scales, mask = pack_signs(base, tuned, zeros="mask")
    changed = np.unpackbits(mask, axis=1, bitorder="little", count=77).astype(bool)
    np.testing.assert_array_equal(changed, tuned - base != 0)
    signs = unpack_signs(bits, 77, mask=mask)
    np.testing.assert_array_equal(signs, np.sign(tuned - base))
    applied = base.copy()
    apply_signs(applied, bits, scales, mask=mask)
    expected = np.where(changed, base + signs * scales[:, None], base)
    assert applied.tobytes() == expected.tobytes()


def test_a_second_plane_codes_what_the_first_one_leaves() -> None:
    residual = np.random.default_rng(0).standard_normal((4, 40)).astype(np.float32)
    zeros = np.zeros_like(residual)
    left = [np.abs(residual).sum()]
    for _ in range(2):
        bits, scales = pack_signs(zeros, residual)
        apply_signs(residual, bits, -scales)
        left.append(np.abs(residual).sum())
    assert left[0] > left[1] > left[2]


def test_the_arrays_of_an_earlier_call_are_written_again() -> None:
    pair = random_matrices(0, (4, 40))
    out = pack_signs(*pair)
    again = pack_signs(pair[1], pair[0], out=out)
    assert again is out
    np.testing.assert_array_equal(out[0], pack_signs(pair[1], pair[0])[0])
    with raises("core.wrong_shape", "scales has the wrong shape"):
        pack_signs(*pair, scale="matrix", out=out)
    with pytest.raises(ValueError, match="out does not fit: expected 3 arrays, got 2"):
        pack_signs(*pair, zeros="mask", out=out)


@pytest.mark.parametrize("group", [0, 7, 12])
def test_a_group_that_does_not_begin_with_a_byte_is_refused(group: int) -> None:
    base = np.zeros((2, 16), np.float32)
    with pytest.raises(ValueError, match=f"expected a multiple of 8, at least 8, got {group}"):
        pack_signs(base, base, scale="group", group=group)


def test_a_value_that_is_not_finite_is_reported_with_the_tensors_name() -> None:
    base = torch.zeros(2, 5, dtype=torch.bfloat16)
    base[1, 3] = float("inf")
    message = r"^tensor 'q_proj' \(bfloat16 \[2, 5\]\): base is not finite: .* row 1, column 3$"
    for scale in SCALES:
        with pytest.raises(InputError, match=message):
            pack_signs(base, base, scale=scale, name="q_proj")


def test_tied_tensors_give_minus_signs_and_a_scale_of_zero() -> None:
    base = np.ones((3, 9), np.float32)
    bits, scales, mask = pack_signs(base, base, zeros="mask")
    assert not any(part.any() for part in (bits, scales, mask))


@pytest.mark.slow
def test_another_thread_runs_while_the_core_works() -> None:
    base = torch.zeros(4000, 4000)
    steps, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            steps[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = steps[0]
    for _ in range(20):
        pack_signs(base, base, threads=1)
    inside = steps[0] - before
    done.set()
    thread.join()
    assert inside > 0
