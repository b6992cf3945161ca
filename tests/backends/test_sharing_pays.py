"""When rows are computed together: fewer tokens, but more pairs of tokens."""

from pathlib import Path

import numpy as np
import pytest

from tests.backends.conftest import write_tiny
from tests.backends.policies import as_reference
from zoo.backends import load_backend
from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.packable import pays


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> LossModule:
    folder = write_tiny(
        tmp_path_factory.mktemp("wide"), tied=True, hidden_size=256, intermediate_size=768
    )
    return as_reference(load_backend("cpu").load(folder)).module


@pytest.mark.parametrize(
    ("rows", "prompt", "own", "expected"),
    [(8, 256, 64, True), (2, 128, 128, True), (8, 4, 64, False), (16, 32, 512, False)],
    ids=["a group", "a pair", "a short prompt", "long answers"],
)
def test_sharing_depends_on_the_lengths(
    module: LossModule, *, rows: int, prompt: int, own: int, expected: bool
) -> None:
    assert pays(module, (rows, prompt + own), (1, prompt + rows * own)) is expected


def test_sharing_is_compared_with_rows_without_padding(module: LossModule) -> None:
    uneven = np.array([200, *(20,) * 7])
    packed = (1, int(uneven.sum()) - 7)  # all begin with one token
    assert pays(module, (8, 200), packed)
    assert not pays(module, (8, 200), packed, uneven)


def test_a_larger_model_shares_more(module: LossModule, tied: Path) -> None:
    small = as_reference(load_backend("cpu").load(tied)).module
    lengths = (8, 64 + 64), (1, 64 + 8 * 64)
    assert (pays(small, *lengths), pays(module, *lengths)) == (False, True)
