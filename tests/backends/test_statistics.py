"""The chunked head: every way to a statistic, compared with full logits in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from zoo.backends.base import Stat
from zoo.backends.torch.vocabulary import statistics
from zoo.backends.torch.vocabulary.head import CHUNK_TOKENS, Head
from zoo.backends.torch.vocabulary.statistics import Scored, Stats

TOKENS = CHUNK_TOKENS + 37  # two chunks, the second one short
HIDDEN, WORDS = 16, 97


def problem(*, bias: bool = False, trained: bool = False) -> tuple[Tensor, Tensor, nn.Linear]:
    torch.manual_seed(0)
    head = nn.Linear(HIDDEN, WORDS, bias=bias).requires_grad_(trained)
    return torch.randn(TOKENS, HIDDEN), torch.randint(0, WORDS, (TOKENS,)), head


def weighted(weights: Tensor) -> Callable[[Stats], dict[Stat, Tensor]]:
    return lambda stats: dict.fromkeys(stats, weights)


def expected_gradient(
    hidden: Tensor, targets: Tensor, logits_of: Callable[[Tensor], Tensor], weights: Tensor
) -> Tensor:
    leaf = hidden.double().requires_grad_()
    logprobs = torch.log_softmax(logits_of(leaf), -1).gather(-1, targets[:, None])[:, 0]
    (logprobs * weights).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(
    ("bias", "softcap", "scale"), [(False, 0, 1), (True, 0, 1), (False, 5, 1), (True, 5, 0.25)]
)
def test_each_head_has_the_gradient_of_its_own_logits(
    trained: bool, bias: bool, softcap: float, scale: float
) -> None:
    hidden, targets, linear = problem(bias=bias, trained=trained)
    weights = torch.randn(TOKENS)

    def logits_of(h: Tensor) -> Tensor:
        z = nn.functional.linear(h, linear.weight.double(), linear.bias.double() if bias else None)
        z = z * scale
        return softcap * torch.tanh(z / softcap) if softcap else z

    scored = Scored(hidden, targets, Head(linear, softcap, scale))
    parameters = scored.head.trained_parameters()
    got, _ = statistics.gradients(scored, frozenset({Stat.LOGPROBS}), weighted(weights), parameters)
    expected = expected_gradient(hidden, targets, logits_of, weights.double())
    assert float((got - expected).norm() / expected.norm()) < 1e-6


def test_the_closed_form_and_autograd_agree_on_the_head_gradient() -> None:
    hidden, targets, linear = problem(trained=True)
    scored = Scored(hidden, targets, Head(linear))
    parameters = scored.head.trained_parameters()
    weights = torch.randn(TOKENS)
    closed = statistics.gradients(scored, frozenset({Stat.LOGPROBS}), weighted(weights), parameters)
    both = frozenset({Stat.LOGPROBS, Stat.ENTROPY})
    general = statistics.gradients(
        scored,
        both,
        lambda stats: {Stat.LOGPROBS: weights, Stat.ENTROPY: torch.zeros(TOKENS)},
        parameters,
    )
    torch.testing.assert_close(closed[0], general[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(closed[1][0], general[1][0], rtol=1e-4, atol=1e-6)


def test_bf16_weights_are_read_in_float32() -> None:
    hidden, targets, linear = problem()
    narrow = nn.Linear(HIDDEN, WORDS, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    narrow.weight.copy_(linear.weight)
    wide = nn.Linear(HIDDEN, WORDS, bias=False).requires_grad_(False)
    wide.weight.copy_(narrow.weight)
    needs = frozenset({Stat.LOGPROBS})
    got = statistics.score(Scored(hidden.bfloat16(), targets, Head(narrow)), needs)
    exact = statistics.score(Scored(hidden.bfloat16().float(), targets, Head(wide)), needs)
    torch.testing.assert_close(got, exact, rtol=1e-6, atol=1e-6)


def test_no_token_to_score_gives_no_gradient() -> None:
    hidden, _, linear = problem()
    empty = Scored(hidden[:0], torch.zeros(0, dtype=torch.long), Head(linear))
    got, _ = statistics.gradients(empty, frozenset({Stat.ENTROPY}), weighted(torch.zeros(0)), [])
    assert got.shape == (0, HIDDEN)
