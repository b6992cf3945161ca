"""A LoRA adapter for zen-pico, written in a blink."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoo.gym.delta.reading.adapter import write_adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.models import pico_folder


def write_lora(
    folder: Path, base: str = "zen-pico", step: float = 0.01, revision: str | None = None
) -> Path:
    """Writes a LoRA of rank 1 on one layer of zen-pico."""
    name = "model.layers.0.self_attn.q_proj.weight"
    rows, columns = open_weights(pico_folder()).shape(name)
    A, B = np.full((1, columns), 0.1, np.float32), np.full((1, rows), step, np.float32)
    folder.mkdir()
    write_adapter(folder, iter([(name, A, B)]), base, 1.0)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"revision": revision}))
    return folder


def write_random_adapter(folder: Path) -> Path:
    """Writes a LoRA of rank 4 on every layer of zen-pico, with an alpha other than its rank."""
    random, base = np.random.default_rng(0), open_weights(pico_folder())
    names = [name for name in sorted(base.tensors) if name.endswith("_proj.weight")]

    def factors(name: str) -> tuple[str, NDArray[np.float32], NDArray[np.float32]]:
        rows, columns = base.shape(name)
        sizes = ((4, columns), (4, rows))
        A, B = (random.normal(0, 0.05, size).astype(np.float32) for size in sizes)
        return name, A, B

    folder.mkdir()
    write_adapter(folder, map(factors, names), "zen-pico", 3.0)
    return folder
