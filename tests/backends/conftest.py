"""Tiny models as folders, and every engine that this machine has."""

from pathlib import Path
from typing import Any

import pytest

from zoo.backends import ENGINES
from zoo.backends.machine.detect import probe


def write_tiny(folder: Path, *, tied: bool, seed: int = 0, **settings: object) -> Path:
    """Writes a two-layer Qwen3 whose predictions are far from uniform."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from zoo.backends.torch.quiet import quiet

    shape: dict[str, Any] = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 128,
        "vocab_size": 521,
        "max_position_embeddings": 512,
        "tie_word_embeddings": tied,
    }
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(Qwen3Config(**(shape | settings)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    with quiet():
        model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tied"), tied=True)


@pytest.fixture(scope="session")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("untied"), tied=False)


@pytest.fixture(scope="session")
def teacher_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("teacher"), tied=False, seed=5)


@pytest.fixture
def stored_bf16(tied: Path, tmp_path: Path) -> Path:
    """The tiny model rounded to bf16, as every model of the hub is stored."""
    from zoo.backends.torch.files.load import load_model

    model: Any = load_model(tied, dtype="bf16")
    model.save_pretrained(tmp_path / "bf16")
    return tmp_path / "bf16"


DEVICES = [
    pytest.param(name, marks=pytest.mark.mlx) if name == "mlx" else name for name in sorted(ENGINES)
]


@pytest.fixture(params=DEVICES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    works, why = probe(name)
    if not works:
        pytest.skip(f"{name}: {why}")
    return name
