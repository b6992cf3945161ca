"""Models to learn from: zen-pico with other weights."""

import shutil
from pathlib import Path

from zoo.models import pico_folder


def write_teacher(folder: Path, seed: int = 0) -> Path:
    """Writes a model with zen-pico's tokenizer that predicts something else."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(pico_folder(), folder)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    random = torch.Generator().manual_seed(seed)
    for name, tensor in tensors.items():
        if name.endswith("down_proj.weight"):
            noise = torch.randn(tensor.shape, generator=random) * tensor.float().std()
            tensors[name] = (tensor + noise).to(tensor.dtype)
    save_file(tensors, file, metadata={"format": "pt"})
    return folder
