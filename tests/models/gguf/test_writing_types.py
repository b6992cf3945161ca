"""Types and bytes of tensors are those of llama.cpp's own quantiser."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tests.models.gguf.files import random_tensors, settings, vocabulary, write_gguf
from zoo.core.errors import InputError
from zoo.models.gguf.parts import open_gguf
from zoo.models.gguf.writing.types import (
    FILE_TYPES,
    Model,
    Quantization,
    quantised,
    stored_bytes,
    type_of,
)

BLOCKS, WIDTH = 8, 256
QWEN3: dict[str, Any] = {
    "block_count": BLOCKS,
    "context_length": 64,
    "embedding_length": WIDTH,
    "feed_forward_length": 512,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 64,
    "attention.value_length": 64,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10_000.0,
}


def _tensors(*, tied: bool) -> dict[str, np.ndarray]:
    rows = len(vocabulary()["tokenizer.ggml.tokens"])
    sizes: dict[str, tuple[int, ...]] = {"token_embd.weight": (rows, WIDTH)}
    if not tied:
        sizes["output.weight"] = (rows, WIDTH)
    sizes["output_norm.weight"] = (WIDTH,)
    for block in range(BLOCKS):
        sizes |= {
            f"blk.{block}.attn_norm.weight": (WIDTH,),
            f"blk.{block}.ffn_norm.weight": (WIDTH,),
            f"blk.{block}.attn_q_norm.weight": (64,),
            f"blk.{block}.attn_k_norm.weight": (64,),
            f"blk.{block}.attn_q.weight": (256, WIDTH),
            f"blk.{block}.attn_k.weight": (128, WIDTH),
            f"blk.{block}.attn_v.weight": (128, WIDTH),
            f"blk.{block}.attn_output.weight": (WIDTH, 256),
            f"blk.{block}.ffn_gate.weight": (512, WIDTH),
            f"blk.{block}.ffn_up.weight": (512, WIDTH),
            f"blk.{block}.ffn_down.weight": (WIDTH, 512),
        }
    return random_tensors(sizes)


K_TYPES = [name for name in get_args(Quantization) if "_k" in name or name == "q8_0"]


MOST_USED = {("q4_k_m", True), ("q6_k", False)}
FILES = [
    pytest.param(name, tied, marks=[] if (name, tied) in MOST_USED else pytest.mark.slow)
    for name in K_TYPES
    for tied in (False, True)
]


@pytest.mark.parametrize(("quantization", "tied"), FILES)
def test_bytes_equal_those_of_llama_cpp(
    quantization: Quantization, tied: bool, tmp_path: Path
) -> None:
    llama_cpp: Any = pytest.importorskip("cyllama.llama.llama_cpp")
    pytest.importorskip("libgguf")
    tensors = _tensors(tied=tied)
    source = write_gguf(tmp_path / "f32.gguf", settings("qwen3", QWEN3), tensors)
    params = llama_cpp.LlamaModelQuantizeParams()
    params.ftype, params.nthread = FILE_TYPES[quantization][0], 1
    llama_cpp.model_quantize(str(source), str(tmp_path / "theirs.gguf"), params)
    theirs = open_gguf(tmp_path / "theirs.gguf")
    model = Model(BLOCKS, is_tied=tied)
    for name, values in tensors.items():
        kind = type_of(name, values.shape, quantization, model)
        assert kind == theirs.tensors[name][1].type, name
        assert quantised(values, kind, name).tobytes() == theirs.read(name).tobytes(), name


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        ("blk.0.attn_norm.weight", (256,), "F32"),
        ("blk.0.ffn_gate_inp.weight", (8, 256), "F32"),
        ("blk.0.attn_q.weight", (256, 256), "Q4_K"),
        ("blk.0.attn_q.weight", (256, 128), "Q5_0"),
        ("blk.0.attn_q.weight", (256, 172), "F16"),
        ("output.weight", (264, 128), "Q8_0"),
    ],
)
def test_a_tensor_has_the_type_that_its_width_allows(
    name: str, shape: tuple[int, ...], kind: str
) -> None:
    assert type_of(name, shape, "q4_k_m", Model(2)) == kind


def test_eight_experts_keep_keys_and_values_in_eight_bits() -> None:
    model = Model(2, experts=8)
    for name in ("attn_k", "attn_v"):
        assert type_of(f"blk.0.{name}.weight", (64, 256), "q4_k_m", model) == "Q8_0"
    assert type_of("blk.0.attn_output.weight", (256, 256), "q4_k_m", model) == "Q5_K"


def test_many_rows_are_quantised_in_parts_to_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    whole = quantised(values, "Q8_0", "x")
    monkeypatch.setattr("zoo.models.gguf.writing.types._AT_ONCE", 1000)
    assert quantised(values, "Q8_0", "x").tobytes() == whole.tobytes()
    assert whole.nbytes == stored_bytes(values.shape, "Q8_0")


@pytest.mark.parametrize(
    ("kind", "value", "words"), [("F16", 1e5, "within float16"), ("Q8_0", np.nan, "finite values")]
)
def test_a_value_beyond_the_type_is_refused(kind: str, value: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        quantised(np.full((1, 32), value, np.float32), kind, "x")
