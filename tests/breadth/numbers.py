"""The numbers of both sides: ours, and those of plain transformers, compared."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.backends.base import Batch, Stat
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.sft import SupervisedLoss

LOGPROB_TOLERANCE = 2e-4
"""Absolute, of one token's log-probability: weights are large, and layers add up."""

GRADIENT_TOLERANCE = 2e-3
"""Relative to the norm of all gradients."""

NEW_TOKENS = 8
STEPS = 4


class Wrong(Exception):  # noqa: N818
    """The numbers are not those of the plain library."""


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Wrong(otherwise)


def close(ours: Any, theirs: Any, what: str) -> None:
    first, second = (
        np.concatenate([np.atleast_1d(row) for row in rows]) for rows in (ours, theirs)
    )
    difference = float(np.abs(first - second).max())
    expect(difference <= LOGPROB_TOLERANCE, f"{what}: log-probabilities differ by {difference:.1e}")


def batch_of(rows: list[list[int]]) -> Batch:
    """Returns rows as a batch that learns every token but the first, padded on the right."""
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows], np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(width)[None] < lengths[:, None]
    mask[:, 0] = False
    return Batch(ids, lengths, mask, constants={WINDOW_TOKENS: float(mask.sum())})


def scores(policy: Any, rows: list[list[int]]) -> list[Any]:
    """Returns our log-probability of each learned token, row by row, from one batch."""
    batch = batch_of(rows)
    found = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]
    return [found[i, 1 : len(row)] for i, row in enumerate(rows)]


def train(policy: Any, rows: list[list[int]], *, lr: float) -> None:
    losses = []
    for step in range(STEPS):
        losses.append(policy.accumulate(SupervisedLoss(), batch_of(rows), key=step)["loss"])
        info = policy.optimizer_step(lr, 1e9)
        expect(info.grad_norm > 0 and not info.skipped and info.changed, "nothing was learned")
    losses.append(-float(np.concatenate(scores(policy, rows)).mean()))
    expect(losses[-1] < losses[0], f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")


def same_gradients(policy: Any, model: Any, rows: list[list[int]], adapter: str = "") -> None:
    """Compares the gradient of the mean loss: rows together, and with them each alone."""
    try:
        compare(gradients_of(policy, [rows]), plain_gradients(model, rows, adapter))
    except Wrong:  # experts that are drawn at random draw the same for the same row and seed
        rows_alone = [[row] for row in rows]
        compare(gradients_of(policy, rows_alone), plain_gradients(model, rows, adapter))


def gradients_of(policy: Any, parts: list[list[list[int]]]) -> dict[str, Any]:
    """Returns the gradient of the mean loss over all parts, and leaves none behind."""
    tokens = float(sum(len(row) - 1 for rows in parts for row in rows))
    for key, rows in enumerate(parts):
        batch = replace(batch_of(rows), constants={WINDOW_TOKENS: tokens})
        policy.accumulate(SupervisedLoss(), batch, key=key)
    found = dict(policy.gradients())
    for parameter in policy.module.parameters():
        parameter.grad = None
    return found


def plain_gradients(model: Any, rows: list[list[int]], adapter: str) -> dict[str, Any]:
    """Returns the gradient of transformers' own cross-entropy, one row after the other."""
    from transformers.loss.loss_utils import ForCausalLMLoss

    tokens = sum(len(row) - 1 for row in rows)
    model.train()  # nothing is dropped in tiny models; some train in this mode only
    model.zero_grad(set_to_none=True)
    for key, row in enumerate(rows):
        torch.manual_seed(key)
        ids = torch.tensor([row])
        logits = model(input_ids=ids, use_cache=False).logits
        loss: Any = ForCausalLMLoss(logits, ids, logits.shape[-1])
        (loss * ((len(row) - 1) / tokens)).backward()
    return {
        name.removeprefix("base_model.model." if adapter else "").replace(adapter or "\0", "."): (
            p.grad.numpy() if p.grad is not None else np.zeros(tuple(p.shape), np.float32)
        )
        for name, p in model.named_parameters()
        if p.requires_grad
    }


def compare(
    ours: dict[str, Any], theirs: dict[str, Any], tolerance: float = GRADIENT_TOLERANCE
) -> None:
    odd = sorted(ours.keys() ^ theirs.keys())
    expect(not odd, f"{odd[:1]} is trained on one side only")
    norm = float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in theirs.values())))
    for name, gradient in ours.items():
        difference = float(np.linalg.norm((gradient - theirs[name]).astype(np.float64)))
        expect(
            difference <= tolerance * norm,
            f"the gradient of {name} differs by {difference / norm:.1e}",
        )


@torch.no_grad()
def logits_of(model: Any, row: list[int]) -> Tensor:
    """Returns the plain model's logits of one row alone, `[T, V]`."""
    found: Tensor = model(input_ids=torch.tensor([row]), use_cache=False).logits[0].float()
    return found


def logprobs(model: Any, rows: list[list[int]]) -> list[Any]:
    """Returns the plain model's log-probability of each token but the first, row by row."""
    return [
        logits_of(model, row)[:-1].log_softmax(-1)[range(len(row) - 1), row[1:]].numpy()
        for row in rows
    ]


def cross_entropy(model: Any, rows: list[list[int]]) -> float:
    """Returns transformers' own loss over all rows, each alone, in nats a token."""
    from transformers.loss.loss_utils import ForCausalLMLoss

    total = 0.0
    for row in rows:
        logits = logits_of(model, row)[None]
        loss = ForCausalLMLoss(logits, torch.tensor([row]), logits.shape[-1])
        total += float(loss) * (len(row) - 1)
    return total / sum(len(row) - 1 for row in rows)


def most_likely(model: Any, prompt: list[int], ids: list[int], otherwise: str) -> None:
    """Takes an answer in which every token is the most likely one, ties within 1e-3 included."""
    logits = logits_of(model, prompt + ids)[len(prompt) - 1 : -1]
    short = (logits.amax(-1) - logits[range(len(ids)), ids]).max()
    expect(
        float(short) <= 1e-3 and len(ids) == NEW_TOKENS, f"{otherwise} ({float(short):.1e} short)"
    )
