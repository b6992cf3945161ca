"""GGUF files of tiny random models, made from the names and shapes of transformers' models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ALPHABET = ["<unk>", "<s>", "</s>"]


def vocabulary() -> dict[str, Any]:
    """Returns the keys of a byte-level vocabulary with one merge and three control tokens."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = [*ALPHABET, *sorted(ByteLevel.alphabet()), "ab"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
    }


TOKENS = len(vocabulary()["tokenizer.ggml.tokens"])

LLAMA: dict[str, Any] = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 32,
    "feed_forward_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.dimension_count": 8,
    "rope.freq_base": 10_000.0,
}


def settings(architecture: str, values: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """Returns all keys of a file."""
    keys = {f"{architecture}.{key}": value for key, value in values.items()}
    return {"general.architecture": architecture, **keys, **vocabulary(), **others}


def llama_tensors(seed: int = 0, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Returns the tensors of the tiny Llama, those of `shapes` in another shape."""
    sizes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (TOKENS, 32),
        "output_norm.weight": (32,),
    }
    for block in range(2):
        sizes |= {
            f"blk.{block}.attn_norm.weight": (32,),
            f"blk.{block}.ffn_norm.weight": (32,),
            f"blk.{block}.attn_q.weight": (32, 32),
            f"blk.{block}.attn_k.weight": (16, 32),
            f"blk.{block}.attn_v.weight": (16, 32),
            f"blk.{block}.attn_output.weight": (32, 32),
            f"blk.{block}.ffn_gate.weight": (64, 32),
            f"blk.{block}.ffn_up.weight": (64, 32),
            f"blk.{block}.ffn_down.weight": (32, 64),
        }
    return random_tensors(sizes | shapes, seed)


def random_tensors(sizes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    """Returns random values: near 1 for vectors of norms, near 0 for all else."""
    generator = np.random.default_rng(seed)
    return {
        name: (
            generator.normal(size=size) * (0.02 if len(size) > 1 else 0.1)
            + (1 if "norm" in name and name.endswith("weight") else 0)
        ).astype(np.float32)
        for name, size in sizes.items()
    }


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    kind: str = "F32",
) -> Path:
    """Writes a file; matrices get the type `kind`."""
    from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, quantize

    code = GGMLQuantizationType[kind]
    writer = GGUFWriter(path, str(metadata.get("general.architecture", "llama")))
    types = {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32, float: GGUFValueType.FLOAT32}
    for key, value in metadata.items():
        if key == "general.architecture":
            continue
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            is_negative = type(value) is int and value < 0
            kind_of_value = types.get(type(value), GGUFValueType.STRING)
            writer.add_key_value(key, value, GGUFValueType.INT32 if is_negative else kind_of_value)
    for name, values in tensors.items():
        if values.ndim < 2 or kind == "F32":
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, quantize(values, code), raw_dtype=code)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
