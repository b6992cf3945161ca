"""Bits per byte against windows cut by hand and plain transformers."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.codes import raises
from zoo.gym.measure.text import bits_per_byte

if TYPE_CHECKING:
    from zoo.backends.base import Policy

TEXT = "Once — upon a time — there was a naïve owl. " * 12
"""More bytes than characters, and more than two windows."""


def by_hand(model: Any, ids: list[int], window_tokens: int) -> float:
    """Summed nats of `ids`; the last token of a window is the first of the next."""
    nats = 0.0
    for start in range(0, len(ids) - 1, window_tokens - 1):
        window = torch.tensor([ids[start : start + window_tokens]])
        with torch.no_grad():
            logits = model(input_ids=window).logits[0, :-1].double()
        nats += float(torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum"))
    return nats


@pytest.mark.parametrize("window_tokens", [256, 64])
def test_it_is_nats_over_ln_2_over_utf8_bytes(
    policies: "tuple[Policy, Policy]",
    plain: tuple[Any, Any],
    byte_tokenizer: Callable[..., Any],
    window_tokens: int,
) -> None:
    tokenizer = byte_tokenizer()
    ids = [tokenizer.bos_token_id, *tokenizer(TEXT, add_special_tokens=False)["input_ids"]]
    assert len(ids) == 1 + len(TEXT.encode()) > 2 * 256  # a token a byte, BOS once
    expected = by_hand(plain[0], ids, window_tokens) / math.log(2) / len(TEXT.encode())
    got = bits_per_byte(policies[0], tokenizer, TEXT, window_tokens=window_tokens)
    assert got == pytest.approx(expected, rel=1e-6)


def test_the_window_is_256_tokens_by_default(
    policies: "tuple[Policy, Policy]", byte_tokenizer: Callable[..., Any]
) -> None:
    default, told = (
        bits_per_byte(policies[0], byte_tokenizer(), TEXT, **given)
        for given in ({}, {"window_tokens": 256})
    )
    assert default == told


def test_a_text_of_nothing_is_refused(
    policies: "tuple[Policy, Policy]", byte_tokenizer: Callable[..., Any]
) -> None:
    with raises("data.no_usable_row", "no row has a token to learn"):
        bits_per_byte(policies[0], byte_tokenizer(), "")
