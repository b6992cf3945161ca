"""Two small models that disagree, rows to score, and what plain transformers says of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.backends.conftest import write_tiny
from zoo.backends import load_backend
from zoo.gym.data import Example

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.backends.base import Policy


@pytest.fixture(scope="package")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("models")
    one = write_tiny(place / "one", tied=True, seed=1)
    return one, write_tiny(place / "two", tied=False, seed=2)


@pytest.fixture(scope="package")
def policies(folders: tuple[Path, Path]) -> "tuple[Policy, Policy]":
    one, two = (load_backend("cpu").load(folder) for folder in folders)
    return one, two


@pytest.fixture(scope="package")
def plain(folders: tuple[Path, Path]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM

    one, two = (AutoModelForCausalLM.from_pretrained(folder) for folder in folders)
    return one, two


@pytest.fixture
def examples() -> list[Example]:
    """Seven rows of 5 to 23 tokens, about half of them learned; the last row learns nothing."""
    random = np.random.default_rng(0)
    rows: list[Example] = []
    for place, length in enumerate((12, 5, 23, 17, 5, 9, 8)):
        mask = (random.random(length) < 0.5) & (place < 6)
        mask[0], mask[-1] = False, place < 6
        rows.append(Example(random.integers(0, 521, length), mask, f"row:{place}", False))
    return rows


def next_token_logprobs(model: Any, example: Example) -> "Tensor":
    """Log-probabilities of every next token, `[T - 1, V]` in float64, from full logits."""
    import torch

    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(example.ids)[None]).logits[0, :-1]
    return torch.log_softmax(logits.double(), -1)


def learned(example: Example) -> "Tensor":
    """Where in `next_token_logprobs` a learned token is predicted."""
    import torch

    return torch.from_numpy(example.mask[1:])


def learned_tokens(examples: Sequence[Example]) -> int:
    return sum(int(example.mask.sum()) for example in examples)
