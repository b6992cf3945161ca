"""Arrays of three libraries cross without a copy, and what cannot cross is refused by name."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from zoo.core.arrays import as_numpy, borrow, lend, located
from zoo.core.errors import InputError

TORCH_TYPES = [(torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")]


@pytest.mark.parametrize(("dtype", "short"), TORCH_TYPES)
def test_a_torch_tensor_is_lent_where_it_lies(dtype: torch.dtype, short: str) -> None:
    tensor = torch.nn.Parameter(torch.randn(3, 5).to(dtype))
    memory, found = lend("weights", tensor, writable=True)
    assert (memory.ctypes.data, memory.shape, found) == (tensor.data_ptr(), (3, 5), short)


@pytest.mark.mlx
@pytest.mark.parametrize("short", ["f32", "f16", "bf16"])
def test_an_mlx_array_is_lent_where_it_lies(short: str) -> None:
    mx = pytest.importorskip("mlx.core")
    dtype = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}[short]
    array = mx.array([[1.0, -2.5, 0.0]]).astype(dtype)
    first, found = lend("base", array)
    again, _ = lend("base", array)
    assert (found, first.shape, first.ctypes.data) == (short, (1, 3), again.ctypes.data)
    assert first.tobytes() == bytes(memoryview(array))


@pytest.mark.mlx
def test_an_mlx_array_is_never_written() -> None:
    mx = pytest.importorskip("mlx.core")
    message = "expected a NumPy array or a torch tensor, got an MLX array, which is immutable"
    with pytest.raises(ValueError, match=message):
        lend("weights", mx.zeros((2, 2)), writable=True)


@pytest.mark.mlx
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_mlx_array_with_strides_is_refused(dtype: str) -> None:
    mx = pytest.importorskip("mlx.core")
    turned = mx.zeros((2, 3)).astype(getattr(mx, dtype)).T
    with pytest.raises(ValueError, match="base cannot be borrowed"):
        lend("base", turned)


def test_numpy_uint16_is_bfloat16_only_when_named() -> None:
    words = np.zeros((2, 2), np.uint16)
    assert lend("base", words, "bf16")[1] == "bf16"
    with pytest.raises(TypeError, match="got uint16; for uint16 pass the type, such as 'bf16'"):
        lend("base", words)


@pytest.mark.parametrize("named", ["f32", "f16"])
def test_a_named_type_that_is_not_the_tensors_own_is_refused(named: Any) -> None:
    with pytest.raises(TypeError, match=r"expected float(32|16), got bfloat16"):
        lend("base", torch.zeros(2, 2, dtype=torch.bfloat16), named)


def test_what_is_not_on_the_processor_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a dense CPU tensor, got one on 'meta'"):
        as_numpy("base", torch.zeros(2, 2, device="meta"))
    with pytest.raises(ValueError, match=r"got one on 'torch.sparse_coo'"):
        as_numpy("base", torch.zeros(2, 2).to_sparse())


def test_a_transposed_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="base cannot be borrowed: expected contiguous"):
        lend("base", torch.zeros(2, 3, dtype=torch.bfloat16).T)


def test_bits_are_borrowed_from_torch() -> None:
    bits = torch.zeros(2, 3, dtype=torch.uint8)
    assert borrow("bits", bits, "uint8").ctypes.data == bits.data_ptr()
    with pytest.raises(TypeError, match=r"expected uint8, got float32 with shape \(2, 3\)"):
        borrow("bits", bits.float(), "uint8")


@pytest.mark.parametrize("kind", [InputError, TypeError, ValueError])
def test_an_error_begins_with_the_tensors_name_type_and_shape(kind: type[Exception]) -> None:
    with (
        pytest.raises(kind, match=r"^tensor 'q_proj' \(bfloat16 \[2, 3\]\): no good"),
        located("q_proj", torch.zeros(2, 3, dtype=torch.bfloat16)),
    ):
        raise kind("no good")


@pytest.mark.slow
def test_lending_imports_neither_torch_nor_mlx() -> None:
    script = (
        "import sys, numpy as np; from zoo.core.arrays import lend; "
        "lend('a', np.ones((1, 1), np.float32)); print({'torch', 'mlx'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "set()"
