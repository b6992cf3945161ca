"""DPO and GRPO on one family: our policy's loss and gradient, and those of plain autograd.

Legend: B rows, T positions, A tokens of an answer. The rows of a pair or a group share a prompt,
which our policy may compute once; the plain model reads each row alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.breadth import families
from tests.breadth.numbers import Wrong, compare, expect
from zoo.backends.base import Batch, Objective, SharedPrefix
from zoo.gym.objectives.constants import (
    REF_LOGPROBS,
    WINDOW_FIRST_TOKENS,
    WINDOW_ROWS,
    WINDOW_TOKENS,
    WINDOW_UNITS,
)
from zoo.gym.objectives.dpo import DpoLoss
from zoo.gym.objectives.grpo import ADVANTAGES, OLD_LOGPROBS, GroupRelativeLoss

LOSS_TOLERANCE = 1e-6
"""Absolute: a log-probability of an answer is a sum of float32 numbers, and counts a tenth."""

GRADIENT_TOLERANCE = 1e-5
"""Relative to the norm of all gradients."""

BETA = 0.1
PROMPTS = (5, 9)
PAIRS = ((4, 6), (3, 5))
"""The lengths of the answers to each prompt."""

GROUPS = ((4, 6, 5), (3, 5, 7))

Plain = Callable[[list[Tensor], "Rows"], Tensor]
"""Takes the log-probabilities of the tokens of each answer, [A] each; returns the loss."""


@dataclass(frozen=True)
class Rows:
    """Rows in units, and random numbers that belong to their tokens or to themselves.

    Attributes:
        ids: the token ids of each row.
        starts: the length of each row's prompt.
        units: the number of rows of each unit.
        ref: the log-probabilities of a reference, [A] for each row.
        old: those of an old policy.
        advantages: a number for each row.
    """

    ids: list[list[int]]
    starts: list[int]
    units: int
    ref: list[Tensor]
    old: list[Tensor]
    advantages: Tensor

    @property
    def tokens(self) -> int:
        return sum(len(row) - start for row, start in zip(self.ids, self.starts, strict=True))

    def batch(self) -> Batch:
        """Returns the rows as a window of one batch that shares prompts."""
        width = max(map(len, self.ids))
        lengths_B, starts_B = np.array([len(row) for row in self.ids]), np.array(self.starts)
        places_T = np.arange(width)[None]
        mask_BT = (places_T >= starts_B[:, None]) & (places_T < lengths_B[:, None])
        extras: dict[str, Any] = {ADVANTAGES: self.advantages.numpy()}
        for name, values in ((REF_LOGPROBS, self.ref), (OLD_LOGPROBS, self.old)):
            extras[name] = np.zeros(mask_BT.shape, np.float32)
            extras[name][mask_BT] = torch.cat(values).numpy()
        size = len(self.ids) // self.units
        prompt_B, lengths_R = np.repeat(np.arange(self.units), size), starts_B[::size]
        prefix = SharedPrefix(prompt_B, lengths_R)
        constants = {
            WINDOW_TOKENS: self.tokens,
            WINDOW_FIRST_TOKENS: int(mask_BT[::size].sum()),
            WINDOW_UNITS: self.units,
            WINDOW_ROWS: len(self.ids),
        }
        return Batch(
            np.array([row + [0] * (width - len(row)) for row in self.ids], np.int64),
            lengths_B,
            mask_BT,
            extras,
            constants={name: float(value) for name, value in constants.items()},
            prefix=prefix,
        )


def make_rows(model: Any, answers: Sequence[Sequence[int]]) -> Rows:
    """Returns random rows; reference and old policy are the model's log-probabilities, moved."""
    random = np.random.default_rng(11)

    def tokens(count: int) -> list[int]:
        found: list[int] = random.integers(families.FIRST_ID, families.LAST_ID, count).tolist()
        return found

    ids: list[list[int]] = []
    starts: list[int] = []
    for length, lengths in zip(PROMPTS, answers, strict=True):
        prompt = tokens(length)
        ids += [prompt + tokens(count) for count in lengths]
        starts += [length] * len(lengths)
    with torch.no_grad():
        found = plain_logprobs(model, ids, starts)

    def moved(scale: float) -> list[Tensor]:
        noise = (random.normal(0, scale, len(values)) for values in found)
        return [(v + torch.from_numpy(n)).float() for v, n in zip(found, noise, strict=True)]

    advantages = torch.from_numpy(random.normal(0, 1, len(ids)).astype(np.float32))
    return Rows(ids, starts, len(answers), moved(0.3), moved(0.2), advantages)


def plain_logprobs(model: Any, ids: list[list[int]], starts: list[int]) -> list[Tensor]:
    """Returns the log-probabilities of the tokens of each answer, each row alone."""
    found: list[Tensor] = []
    for row, start in zip(ids, starts, strict=True):
        logits_TV = model(input_ids=torch.tensor([row]), use_cache=False).logits[0].float()
        places = torch.arange(start, len(row))
        found.append(logits_TV[places - 1].log_softmax(-1)[range(len(places)), row[start:]])
    return found


def padded_logprobs(model: Any, rows: Rows) -> list[Tensor]:
    """Returns the same from one batch, padded on the right."""
    ids_BT = torch.from_numpy(rows.batch().ids_BT)
    logprobs_BTV = model(input_ids=ids_BT, use_cache=False).logits.float().log_softmax(-1)
    found: list[Tensor] = []
    for at, (row, start) in enumerate(zip(rows.ids, rows.starts, strict=True)):
        places = torch.arange(start, len(row))
        found.append(logprobs_BTV[at, places - 1][range(len(places)), row[start:]])
    return found


def plain_dpo(logprobs: list[Tensor], rows: Rows) -> Tensor:
    gains = torch.stack([(v - r).sum() for v, r in zip(logprobs, rows.ref, strict=True)])
    return -torch.nn.functional.logsigmoid(BETA * (gains[0::2] - gains[1::2])).mean()


def plain_grpo(logprobs: list[Tensor], rows: Rows) -> Tensor:
    total = torch.zeros(())
    for v, old, ref, gain in zip(logprobs, rows.old, rows.ref, rows.advantages, strict=True):
        ratio = (v - old).exp()
        surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        kl = (ref - v).exp() - (ref - v) - 1
        total = total + (BETA * kl * ratio - surrogate).sum()
    return total / rows.tokens


def same_dpo(policy: Any, model: Any) -> None:
    """Compares DPO on two pairs."""
    _same(policy, model, DpoLoss(beta=BETA), plain_dpo, make_rows(model, PAIRS))


def same_grpo(policy: Any, model: Any) -> None:
    """Compares GRPO on two groups of three answers, with a reference and clipped ratios."""
    _same(policy, model, GroupRelativeLoss(beta=BETA), plain_grpo, make_rows(model, GROUPS))


def _same(policy: Any, model: Any, objective: Objective, plain: Plain, rows: Rows) -> None:
    ours = policy.accumulate(objective, rows.batch(), key=0)["loss"]
    gradients = dict(policy.gradients())
    model.train()  # nothing is dropped in tiny models; some train in this mode only
    try:
        _compare(ours, gradients, model, plain(plain_logprobs(model, rows.ids, rows.starts), rows))
    except Wrong:  # what is drawn, or chosen between equals, depends on the shape of the batch
        torch.manual_seed(0)
        _compare(ours, gradients, model, plain(padded_logprobs(model, rows), rows))


def _compare(ours: float, gradients: dict[str, Any], model: Any, theirs: Tensor) -> None:
    difference = abs(ours - theirs.item())
    expect(difference <= LOSS_TOLERANCE, f"the loss differs by {difference:.1e}")
    model.zero_grad(set_to_none=True)
    theirs.backward()  # type: ignore[no-untyped-call]
    expected = {
        name: np.zeros(tuple(p.shape), np.float32) if p.grad is None else p.grad.numpy()
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    compare(gradients, expected, GRADIENT_TOLERANCE)
