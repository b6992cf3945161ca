"""Copies of zen-pico with one thing broken, and rows of data with one thing wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
WEIGHTS = "model.safetensors"
NORM = "model.norm.weight"

Break = Callable[[Path], object]
"""Takes the folder of a whole model and leaves a broken one."""


def pico(folder: Path) -> Path:
    """Copies the built-in model."""
    from zoo.models import resolve

    return Path(shutil.copytree(resolve("zen-pico").folder, folder))


def change(folder: Path, name: str, edit: Callable[[Any], object]) -> None:
    """Edits one tensor in place, or replaces it by what `edit` returns."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / WEIGHTS)
    edited = edit(tensors[name])
    tensors[name] = edited if isinstance(edited, torch.Tensor) else tensors[name]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def put_nan(folder: Path) -> None:
    """Makes one value of the last norm a NaN."""
    change(folder, NORM, lambda tensor: tensor.__setitem__(3, float("nan")))


def reshape(folder: Path) -> None:
    """Gives the last norm half of its values."""
    change(folder, NORM, lambda tensor: tensor[:64].clone())


def cut(name: str) -> Break:
    """Returns what keeps the first half of a file."""

    def half(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return half


def write(name: str, text: str) -> Break:
    """Returns what replaces a file by a text."""
    return lambda folder: (folder / name).write_text(text)


def remove(name: str) -> Break:
    """Returns what removes a file."""
    return lambda folder: (folder / name).unlink()


def rename(name: str) -> Break:
    """Returns what gives the weights another name."""
    return lambda folder: (folder / WEIGHTS).rename(folder / name)


def set_config(**settings: object) -> Break:
    """Returns what changes settings of the config."""

    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return edit


def move_weights(folder: Path) -> None:
    """Moves every weight a little, up or down: what a full fine-tune leaves."""
    import torch
    from safetensors.torch import load_file, save_file

    draws = torch.Generator().manual_seed(0)
    tensors = load_file(folder / WEIGHTS)
    for name, tensor in tensors.items():
        step = 0.01 * torch.randn(tensor.shape, generator=draws)
        tensors[name] = (tensor.float() + step).to(tensor.dtype)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def chat_rows(path: Path, count: int = 12) -> Path:
    """Writes short chats."""
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    path.write_text("\n".join([json.dumps({"messages": turns})] * count))
    return path
