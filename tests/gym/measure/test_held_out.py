"""Held-out loss against full logits of plain transformers."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from tests.gym.measure.conftest import learned, learned_tokens, next_token_logprobs
from zoo.gym.data import Example
from zoo.gym.measure import Score, held_out

if TYPE_CHECKING:
    from zoo.backends.base import Policy

Policies = tuple["Policy", "Policy"]


def expected_nats(model: Any, example: Example) -> float:
    ids = torch.from_numpy(example.ids[1:])
    logprobs = next_token_logprobs(model, example).gather(-1, ids[:, None])[:, 0]
    return -float(logprobs[learned(example)].sum())


@pytest.mark.slow
def test_nats_are_those_of_full_logits(
    policies: Policies, plain: tuple[Any, Any], examples: list[Example]
) -> None:
    expected = sum(expected_nats(plain[0], example) for example in examples)
    score = held_out(policies[0], examples)
    assert (score.rows, score.tokens) == (7, learned_tokens(examples))
    assert score.nats == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("max_batch_tokens", [1, 24, 50])
def test_the_size_of_a_batch_changes_nothing(
    policies: Policies, examples: list[Example], max_batch_tokens: int
) -> None:
    whole = held_out(policies[0], examples)
    cut = held_out(policies[0], examples, max_batch_tokens=max_batch_tokens)
    assert (cut.rows, cut.tokens) == (whole.rows, whole.tokens)
    assert cut.nats == pytest.approx(whole.nats, rel=1e-6)


def test_the_loss_is_a_mean_over_tokens_not_over_rows() -> None:
    assert Score(rows=2, tokens=8, nats=6.0).loss == 0.75


def test_rows_that_learn_nothing_are_refused(policies: Policies) -> None:
    row = Example(np.arange(4), np.zeros(4, dtype=np.bool_), "row:1", False)
    with pytest.raises(ValueError, match="expected at least one learned token"):
        held_out(policies[0], [row])
