"""The chunked head against torch's cross entropy on full logits: memory, time, exactness.

2,048 tokens, 151,936 words, hidden size 256, one process, one thread.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from bench.measure import Case, Cost, cost
from zoo.backends.base import Stat
from zoo.backends.torch.vocabulary.head import CHUNK_TOKENS, Head
from zoo.backends.torch.vocabulary.statistics import Scored, Stats, gradients, score

TOKENS, WORDS, HIDDEN = 2048, 151_936, 256


def problem(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, nn.Linear]:
    """Returns hidden states, targets, and a head with spread-out predictions."""
    torch.manual_seed(0)
    head = nn.Linear(HIDDEN, WORDS, bias=False)
    nn.init.normal_(head.weight, std=0.2)
    hidden = torch.randn(TOKENS, HIDDEN)
    return hidden.to(dtype), torch.randint(0, WORDS, (TOKENS,)), head.to(dtype)


def full(hidden: Tensor, targets: Tensor, head: nn.Linear) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns loss and gradients by full logits and autograd."""
    leaf = hidden.clone().requires_grad_()
    head.weight.grad = None
    loss = nn.functional.cross_entropy(head(leaf).float(), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return loss.detach(), leaf.grad, head.weight.grad


def plain_chunks(hidden: Tensor, targets: Tensor, head: nn.Linear) -> Tensor:
    """Returns the gradient of the hidden states by a loop over chunks with autograd."""
    leaf = hidden.clone().requires_grad_()
    for start in range(0, TOKENS, CHUNK_TOKENS):
        part = slice(start, start + CHUNK_TOKENS)
        loss = nn.functional.cross_entropy(head(leaf[part]), targets[part], reduction="sum")
        (loss / TOKENS).backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad


def ours(hidden: Tensor, targets: Tensor, head: nn.Linear) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Returns loss and gradients by chunked statistics."""
    scored, losses = Scored(hidden, targets, Head(head)), list[Tensor]()

    def cotangents(stats: Stats) -> dict[Stat, Tensor]:
        losses.append(-stats[Stat.LOGPROBS].mean())
        return {Stat.LOGPROBS: torch.full((TOKENS,), -1 / TOKENS)}

    trained = Head(head).trained_parameters()
    dhidden, grads = gradients(scored, frozenset({Stat.LOGPROBS}), cotangents, trained)
    return losses[0], dhidden, grads


def relative(got: Tensor, expected: Tensor) -> float:
    """|got - expected| / |expected|."""
    return float((got - expected).norm() / expected.norm())


def run() -> Iterator[Case]:
    """Yields the cases."""
    torch.set_num_threads(1)
    hidden, targets, head = problem()
    yield from _frozen(hidden, targets, head)
    yield from _trained(hidden, targets, head)
    yield from _bf16()


def _frozen(hidden: Tensor, targets: Tensor, head: nn.Linear) -> Iterator[Case]:
    head.requires_grad_(requires_grad=False)
    loss, dhidden, _ = full(hidden, targets, head)
    got_loss, got_dhidden, _ = ours(hidden, targets, head)
    value_error = abs(float(got_loss - loss)) / float(loss)
    yield Case("frozen head: loss", value_error, "relative", "full logits", value_error, "<= 1e-5")
    error = relative(got_dhidden, dhidden)
    yield Case("frozen head: gradient", error, "relative", "full logits", error, "<= 1e-5")
    theirs = cost(lambda: full(hidden, targets, head))
    mine = cost(lambda: ours(hidden, targets, head))
    loop = cost(lambda: plain_chunks(hidden, targets, head))
    yield from _ratios("frozen head", mine, theirs, "<= 0.12", "<= 0.7")
    yield Case(
        "frozen head: time",
        mine.cpu_s,
        "CPU-s",
        "plain chunked loop",
        mine.cpu_s / loop.cpu_s,
        "<= 1.0",
    )


def _trained(hidden: Tensor, targets: Tensor, head: nn.Linear) -> Iterator[Case]:
    head.requires_grad_(requires_grad=True)
    _, dhidden, dweight = full(hidden, targets, head)
    _, got_dhidden, (got_dweight,) = ours(hidden, targets, head)
    assert dweight is not None
    error = max(relative(got_dhidden, dhidden), relative(got_dweight, dweight))
    yield Case("trained head: gradient", error, "relative", "full logits", error, "<= 1e-5")
    del dhidden, dweight, got_dhidden, got_dweight
    head.weight.grad = None

    def theirs_once() -> None:
        full(hidden, targets, head)
        head.weight.grad = None

    theirs, mine = cost(theirs_once), cost(lambda: ours(hidden, targets, head))
    yield from _ratios("trained head", mine, theirs, "<= 0.30", "<= 1.5")


def _ratios(name: str, mine: Cost, theirs: Cost, memory: str, time: str) -> Iterator[Case]:
    yield Case(
        f"{name}: extra peak",
        mine.peak_mb,
        "MB",
        "full logits",
        mine.peak_mb / theirs.peak_mb,
        memory,
    )
    yield Case(f"{name}: time", mine.cpu_s, "CPU-s", "full logits", mine.cpu_s / theirs.cpu_s, time)


def _bf16() -> Iterator[Case]:
    hidden, targets, head = problem(torch.bfloat16)
    needs = frozenset({Stat.LOGPROBS})
    wide = nn.Linear(HIDDEN, WORDS, bias=False)
    wide.weight.data = head.weight.data.float()
    exact = score(Scored(hidden.float(), targets, Head(wide)), needs)[Stat.LOGPROBS]
    got = score(Scored(hidden, targets, Head(head)), needs)[Stat.LOGPROBS]
    with torch.no_grad():
        plain = torch.log_softmax(head(hidden), -1).gather(-1, targets[:, None])[:, 0].float()
    error, theirs = float((got - exact).abs().mean()), float((plain - exact).abs().mean())
    yield Case("bf16 weights: log-prob error", error, "nats", "float32", error, "<= 0.005")
    yield Case("bf16 weights, bf16 logits", theirs, "nats", "float32", theirs, "")
