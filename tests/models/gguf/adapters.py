"""LoRA adapters in GGUF, of random factors."""

from pathlib import Path

import numpy as np

from zoo.models.gguf.parts import open_gguf

RANK = 2


def write_adapter(path: Path, base: Path, seed: int, **values: object) -> Path:
    """Writes an adapter on the queries of all blocks of a Llama; `values` replaces its keys."""
    from gguf import GGUFWriter

    keys = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 4.0} | values
    writer = GGUFWriter(path, "llama")
    for key, value in keys.items():
        if isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_string(key, str(value))
    random = np.random.default_rng(seed)
    for name, (_, tensor) in open_gguf(base).tensors.items():
        if name.endswith("attn_q.weight"):
            rows, columns = tensor.shape
            for part, shape in (("a", (RANK, columns)), ("b", (rows, RANK))):
                factor = random.normal(0, 0.5, shape).astype(np.float32)
                writer.add_tensor(f"{name}.lora_{part}", factor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
