"""Which type each tensor gets, as llama.cpp's own quantiser chooses, and the values in that type.

The tables follow `llama_tensor_get_type_impl` in llama.cpp's src/llama-quant.cpp. K types have
blocks of 256 weights; a tensor of another width gets a type with blocks of 32, or float16, and that
is reported: such a file is not what its name would say.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

from zoo.core.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Quantization: TypeAlias = Literal[
    "f32", "f16", "bf16", "q8_0", "q5_0", "q4_0",
    "q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q3_k_l", "q3_k_m", "q3_k_s",
]  # fmt: skip

FILE_TYPES: dict[Quantization, tuple[int, str]] = {
    "f32": (0, "F32"),
    "f16": (1, "F16"),
    "q4_0": (2, "Q4_0"),
    "q8_0": (7, "Q8_0"),
    "q5_0": (8, "Q5_0"),
    "q3_k_s": (11, "Q3_K"),
    "q3_k_m": (12, "Q3_K"),
    "q3_k_l": (13, "Q3_K"),
    "q4_k_s": (14, "Q4_K"),
    "q4_k_m": (15, "Q4_K"),
    "q5_k_s": (16, "Q5_K"),
    "q5_k_m": (17, "Q5_K"),
    "q6_k": (18, "Q6_K"),
    "bf16": (32, "BF16"),
}
"""`general.file_type`, and the type of most weights."""

NARROW = {"Q3_K": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""The types for tensors whose width is no multiple of 256."""

BY_LIBGGUF = frozenset({*NARROW, "IQ4_NL"})
"""Types that the package gguf cannot write."""

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
_BLOCK = re.compile(r"blk\.(\d+)\.")
_AT_ONCE = 1 << 22
"""Weights that are quantised at once: the package gguf needs several times their memory."""


@dataclass(frozen=True)
class Model:
    """What the choice of types depends on.

    Attributes:
        blocks: the number of layers.
        experts: the number of experts of a layer; 0 for none.
        is_tied: whether the embedding is the output matrix, too.
    """

    blocks: int
    experts: int = 0
    is_tied: bool = False


def type_of(name: str, shape: tuple[int, ...], quantization: Quantization, model: Model) -> str:
    """Returns the type of a tensor.

    Args:
        name: its name in the file.
        shape: in NumPy's order: the last one is the width of its rows.
        quantization: what was chosen for the file.
        model: the model that has it.
    """
    main = FILE_TYPES[quantization][1]
    if len(shape) < 2 or "ffn_gate_inp" in name or main == "F32":
        return "F32"
    if main in {"F16", "BF16"}:
        return main
    wanted = _recipe(name, quantization, main, model)
    width = shape[-1]
    if wanted in NARROW and width % 256:
        wanted = NARROW[wanted]
    return "F16" if width % 32 else wanted


def fallbacks(
    shapes: Mapping[str, tuple[int, ...]], quantization: Quantization, model: Model
) -> dict[str, str]:
    """Returns the tensors that are too narrow for their type, and the type that they get."""
    wide = {name: (*shape[:-1], 256) for name, shape in shapes.items()}
    found = {name: type_of(name, shape, quantization, model) for name, shape in shapes.items()}
    return {
        name: kind
        for name, kind in found.items()
        if kind != type_of(name, wide[name], quantization, model)
    }


def stored_bytes(shape: tuple[int, ...], kind: str) -> int:
    """Returns the bytes of a tensor in a type."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return prod(shape) // block * size


def require_types(kinds: "set[str]", command: str) -> None:
    """Checks that what quantises to these types is installed.

    Raises:
        NotAvailableError: it is not.
    """
    if not kinds & BY_LIBGGUF:
        return
    if find_spec("libgguf") is None:
        raise NotAvailableError(
            f"{', '.join(sorted(kinds & BY_LIBGGUF))}: expected the package libgguf (extra gguf), "
            "got nothing",
            hint=f"{command}, or --quantization q8_0, which needs none",
            code="models.missing_package",
        )


def quantised(values: "NDArray[np.float32]", kind: str, name: str) -> "NDArray[np.uint8]":
    """Returns the bytes of a tensor in a type.

    Args:
        values: the tensor.
        kind: the type.
        name: the tensor's, for messages.

    Raises:
        InputError: a value is beyond the type.
    """
    import numpy as np

    rows = values.reshape(-1, values.shape[-1])
    step = max(1, _AT_ONCE // rows.shape[1])
    total = stored_bytes(values.shape, kind)
    if kind == "F32":
        _refuse_not_finite(values, name)
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    stored = np.empty((len(rows), total // len(rows)), np.uint8)
    for start in range(0, len(rows), step):
        part = np.ascontiguousarray(rows[start : start + step])
        stored[start : start + step] = _part(part, kind, name)
    return stored.reshape(-1)


def _refuse_not_finite(values: "NDArray[np.float32]", name: str) -> None:
    import numpy as np

    if not np.isfinite(values).all():
        raise InputError(
            f"tensor {name!r}: expected finite values, got infinity or NaN",
            code="models.not_finite",
        )


def _part(values: "NDArray[np.float32]", kind: str, name: str) -> "NDArray[np.uint8]":
    import numpy as np
    from gguf import GGMLQuantizationType, quantize

    _refuse_not_finite(values, name)
    if kind == "F16":
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if not np.isfinite(half).all():
            raise InputError(
                f"tensor {name!r}: expected values within float16, got {np.abs(values).max():g}",
                hint="--quantization bf16 keeps the range",
                code="models.beyond_half_precision",
            )
        return half.view(np.uint8)
    if kind in BY_LIBGGUF:
        import libgguf

        rows: NDArray[np.uint8] = libgguf.quantize_rows(values, libgguf.GGMLQuantizationType[kind])
        return rows.reshape(len(values), -1)
    return quantize(values, GGMLQuantizationType[kind]).view(np.uint8).reshape(len(values), -1)


def _recipe(name: str, quantization: Quantization, main: str, model: Model) -> str:
    """Returns the type of a matrix that is wide enough."""
    if not main.endswith("_K"):
        return main
    if name == OUTPUT or (name == EMBEDDING and model.is_tied):
        return "Q6_K"
    block = int(match[1]) if (match := _BLOCK.match(name)) else 0
    choices = {
        "attn_v.weight": _values,
        "attn_k.weight": _keys,
        "ffn_down": _down,
        "attn_output.weight": _output,
        "attn_qkv.weight": _joint,
    }
    for part, choose in choices.items():
        if part in name:
            return choose(main, quantization[-1], block, model)
    return main


def _keys(main: str, size: str, block: int, model: Model) -> str:
    del size, block
    return "Q8_0" if model.experts == 8 else main


def _output(main: str, size: str, block: int, model: Model) -> str:
    del block
    if main == "Q3_K" and size in {"m", "l"}:
        return "Q5_K" if size == "l" or model.experts == 8 else "Q4_K"
    return "Q5_K" if model.experts == 8 and main in {"Q3_K", "Q4_K"} else main


def _joint(main: str, size: str, block: int, model: Model) -> str:
    del block, model
    more = {"Q3_K": "Q4_K", "Q4_K": "Q5_K", "Q5_K": "Q6_K"}
    return more.get(main, main) if size in {"m", "l"} else main


def _values(main: str, size: str, block: int, model: Model) -> str:
    if model.experts == 8:
        return "Q8_0"
    if main == "Q3_K":
        return {"l": "Q5_K", "m": "Q5_K" if block < 2 else "Q4_K"}.get(size, main)
    if main in {"Q4_K", "Q5_K"} and size == "m":
        return "Q6_K" if _more_bits(block, model.blocks) else main
    return "Q5_K" if main == "Q4_K" and block < 4 else main


def _down(main: str, size: str, block: int, model: Model) -> str:
    if main == "Q3_K":
        middle = "Q5_K" if block < model.blocks // 16 else "Q4_K"
        return {"l": "Q5_K", "m": middle}.get(size, main)
    if size == "m" and main in {"Q4_K", "Q5_K"}:
        return "Q6_K" if _more_bits(block, model.blocks) else main
    return "Q5_K" if main == "Q4_K" and block < model.blocks // 8 else main


def _more_bits(block: int, blocks: int) -> bool:
    eighth = blocks // 8
    return block < eighth or block >= 7 * blocks // 8 or (block - eighth) % 3 == 2
