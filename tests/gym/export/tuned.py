"""Fine-tunes with random changes, made without training."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from zoo.gym.delta import create_delta
from zoo.gym.delta.reading.adapter import write_adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.models import pico_folder

RANK = 4


def adapter(folder: Path, scale: float = 0.5) -> Path:
    """Writes an adapter on all linear layers of zen-pico, and returns its folder."""
    return adapter_of(pico_folder(), folder, scale, "zen-pico")


def adapter_of(model: Path, folder: Path, scale: float = 0.5, name: str = "base") -> Path:
    """Writes an adapter on all linear layers of a model, and returns its folder."""
    base = open_weights(model)
    draw = np.random.default_rng(0)
    made: list[tuple[str, np.ndarray, np.ndarray]] = []
    for tensor in sorted(name for name in base.tensors if name.endswith("_proj.weight")):
        rows, columns = base.shape(tensor)
        A = draw.normal(size=(RANK, columns)) / np.sqrt(columns)
        B = draw.normal(size=(RANK, rows)) * scale / np.sqrt(rows)
        made.append((tensor, A.astype(np.float32), B.astype(np.float32)))
    folder.mkdir()
    write_adapter(folder, iter(made), name, 1.0, base=base)
    return folder


def peft_adapter(folder: Path, **settings: Any) -> Path:
    """Writes an adapter of zen-pico by peft, with random values, and returns its folder."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    base: Any = AutoModelForCausalLM.from_pretrained(pico_folder(), dtype=torch.float32)
    layers = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj"]
    config = LoraConfig(r=RANK, lora_alpha=8, target_modules=layers, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's, of what is tried here
        model: Any = get_peft_model(base, config)
    for name, weight in model.named_parameters():
        if weight.requires_grad and "magnitude" not in name:
            weight.data += 0.02 * torch.randn_like(weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    file = folder / "adapter_config.json"
    file.write_text(file.read_text().replace(str(pico_folder()), "zen-pico"))
    return folder


def delta_of(source: Path, out: Path) -> Path:
    """Writes the delta of a fine-tune of zen-pico, and returns its file."""
    create_delta(source, base="zen-pico", out=out)
    return out
