"""The divergence between two models against full logits of plain transformers."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.gym.measure.conftest import learned, learned_tokens, next_token_logprobs
from zoo.gym.data import Example
from zoo.gym.measure import divergence

if TYPE_CHECKING:
    from zoo.backends.base import Policy

Policies = tuple["Policy", "Policy"]


def expected_kl(reference: Any, model: Any, example: Example) -> float:
    p, q = (next_token_logprobs(m, example)[learned(example)] for m in (reference, model))
    return float((p.exp() * (p - q)).sum())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_it_is_the_kl_of_full_logits_in_this_order(
    policies: Policies, plain: tuple[Any, Any], examples: list[Example], order: tuple[int, int]
) -> None:
    reference, model = order
    total = sum(expected_kl(plain[reference], plain[model], example) for example in examples)
    got = divergence(policies[reference], policies[model], examples)
    assert got.kl == pytest.approx(total / learned_tokens(examples), rel=1e-5)
    assert got.kl > 0


def test_it_counts_the_tokens_of_which_both_find_the_same_most_likely(
    policies: Policies, plain: tuple[Any, Any], examples: list[Example]
) -> None:
    same = 0
    for example in examples:
        one, other = (next_token_logprobs(m, example)[learned(example)] for m in plain)
        same += int((one.argmax(-1) == other.argmax(-1)).sum())
    assert divergence(*policies, examples).top1 == same / learned_tokens(examples)


def test_a_model_does_not_differ_from_itself(policies: Policies, examples: list[Example]) -> None:
    got = divergence(policies[0], policies[0], examples)
    assert got.kl == pytest.approx(0, abs=1e-6)
    assert got.top1 == 1


@pytest.mark.parametrize("max_batch_tokens", [1, 24])
def test_the_size_of_a_batch_changes_nothing(
    policies: Policies, examples: list[Example], max_batch_tokens: int
) -> None:
    whole = divergence(*policies, examples)
    cut = divergence(*policies, examples, max_batch_tokens=max_batch_tokens)
    assert cut.kl == pytest.approx(whole.kl, rel=1e-5)
    assert cut.top1 == whole.top1


def test_rows_that_learn_nothing_are_refused(policies: Policies) -> None:
    row = Example(np.arange(4), np.zeros(4, dtype=np.bool_), "row:1", False)
    with pytest.raises(ValueError, match="expected at least one learned token"):
        divergence(*policies, [row])
