"""A LoRA adapter for zen-pico, written in a blink."""

import json
from pathlib import Path

import numpy as np

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
