"""Small models, fine-tunes and adapters as files, written by the safetensors library."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float32]]

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 16, 2, 2, 1, 8, 20, 41
PICO = (128, 4, 4, 2, 32, 384, 264)
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "intermediate_size": FFN,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}


def qwen3_shapes(
    geometry: tuple[int, ...] = (HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB),
) -> dict[str, tuple[int, ...]]:
    """Returns the tensors of a tied Qwen3 by name."""
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab = geometry
    block: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (heads * head_dim, hidden),
        "self_attn.k_proj": (kv_heads * head_dim, hidden),
        "self_attn.v_proj": (kv_heads * head_dim, hidden),
        "self_attn.o_proj": (hidden, heads * head_dim),
        "mlp.gate_proj": (ffn, hidden),
        "mlp.up_proj": (ffn, hidden),
        "mlp.down_proj": (hidden, ffn),
        "self_attn.q_norm": (head_dim,),
        "self_attn.k_norm": (head_dim,),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    blocks = {f"model.layers.{i}.{k}.weight": s for i in range(layers) for k, s in block.items()}
    return {"model.embed_tokens.weight": (vocab, hidden), **blocks, "model.norm.weight": (hidden,)}


def random_arrays(
    shapes: Mapping[str, tuple[int, ...]], seed: int, size: float = 1.0
) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    return {
        name: (size * random.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def plus(base: Arrays, change: Arrays) -> dict[str, NDArray[np.float32]]:
    return {name: base[name] + change[name] if name in change else base[name] for name in base}


def write_tensors(
    path: Path, arrays: Arrays, dtype: str = "float32", metadata: dict[str, str] | None = None
) -> Path:
    """Writes arrays as `float32`, `float16` or `bfloat16` with the safetensors library."""
    import torch
    from safetensors.torch import save_file

    kind = getattr(torch, dtype)
    tensors = {name: torch.from_numpy(np.array(array)).to(kind) for name, array in arrays.items()}
    save_file(tensors, path, metadata or {"format": "pt"})
    return path


def write_model(folder: Path, arrays: Arrays, dtype: str = "float32", **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"dtype": dtype} | config))
    write_tensors(folder / "model.safetensors", arrays, dtype)
    return folder


def write_shards(folder: Path, arrays: Arrays, dtypes: tuple[str, str]) -> Path:
    """Writes a model as two shards, each of its own type."""
    write_model(folder, arrays)
    (folder / "model.safetensors").unlink()
    names = sorted(arrays)
    places: dict[str, str] = {}
    for number, (part, dtype) in enumerate(zip((names[::2], names[1::2]), dtypes, strict=True)):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        write_tensors(folder / file, {name: arrays[name] for name in part}, dtype)
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def lora_arrays(
    shapes: Mapping[str, tuple[int, ...]], rank: int, seed: int
) -> dict[str, NDArray[np.float32]]:
    """Returns the factors of an adapter on every linear layer, under peft's names."""
    factors: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        module = name.removesuffix(".weight")
        if module.endswith(LINEAR):
            factors[f"base_model.model.{module}.lora_A.weight"] = (rank, shape[1])
            factors[f"base_model.model.{module}.lora_B.weight"] = (shape[0], rank)
    return random_arrays(factors, seed, 0.1)


def write_adapter(folder: Path, arrays: Arrays, rank: int, **config: object) -> Path:
    folder.mkdir(parents=True)
    told = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none"}
    told |= {"target_modules": list(LINEAR)} | config
    (folder / "adapter_config.json").write_text(json.dumps(told))
    write_tensors(folder / "adapter_model.safetensors", arrays)
    return folder
