"""Which tokens have equal rows in a head."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.models.head_rows import tokens_like

ROWS = np.array([[1, 2], [0, 0], [3, 4], [0, 0], [0, 0], [1, 3]], dtype=np.float32)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.embed_tokens.weight"])
@pytest.mark.parametrize(("token", "others"), [(0, 0), (1, 2), (4, 2), (5, 0), (9, 0)])
def test_other_tokens_with_the_row_of_a_token_are_counted(
    tmp_path: Path, name: str, token: int, others: int
) -> None:
    save_file({name: ROWS, "b": ROWS[:3]}, tmp_path / "model.safetensors")
    assert tokens_like(tmp_path, token) == others


def test_a_head_counts_before_the_embedding(tmp_path: Path) -> None:
    head = np.arange(12, dtype=np.float32).reshape(6, 2)
    tensors = {"lm_head.weight": head, "model.embed_tokens.weight": ROWS}
    save_file(tensors, tmp_path / "model.safetensors")
    assert tokens_like(tmp_path, 1) == 0
