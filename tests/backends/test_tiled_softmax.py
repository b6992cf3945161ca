"""The softmax in tiles equals the softmax in one piece, however the tiles fall."""

import pytest
import torch

from zoo.backends.torch.vocabulary import tiled_softmax as module
from zoo.backends.torch.vocabulary.tiled_softmax import normalise, weighted_gradients

TOKENS, WORDS, HIDDEN = 7, 53, 5


def problem() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    # spread far enough that a later tile often holds the largest logit
    return torch.randn(TOKENS, HIDDEN), 4 * torch.randn(WORDS, HIDDEN)


@pytest.mark.parametrize("tile", [(1, 1), (3, 10), (7, 53), (512, 4096)])
def test_tiles_of_any_size_give_the_whole_softmax(
    tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CPU_TILE", tile)
    hidden, weight = problem()
    got, mean = normalise(hidden, weight, mean_rows=True)
    logits = hidden.double() @ weight.double().T
    assert mean is not None
    torch.testing.assert_close(got.double(), logits.logsumexp(-1), rtol=1e-6, atol=1e-6)
    expected = logits.softmax(-1) @ weight.double()
    torch.testing.assert_close(mean.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tile", [(3, 10), (512, 4096)])
def test_gradients_in_tiles_are_those_of_autograd(
    tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CPU_TILE", tile)
    hidden, weight = (t.requires_grad_() for t in problem())
    counts = torch.randn(TOKENS)
    (-counts * (hidden @ weight.T).logsumexp(-1)).sum().backward()  # type: ignore[no-untyped-call]
    normaliser, _ = normalise(hidden, weight, mean_rows=False)
    got = weighted_gradients(hidden.detach(), weight.detach(), normaliser, counts)
    assert hidden.grad is not None
    assert weight.grad is not None
    torch.testing.assert_close(got[0], hidden.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[1], weight.grad, rtol=1e-4, atol=1e-5)


def test_the_cpus_precision_setting_is_put_back() -> None:
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = setting.fp32_precision
    hidden, weight = problem()
    normalise(hidden, weight.bfloat16(), mean_rows=True)
    assert setting.fp32_precision == before
