"""Bits per byte of running text: a loss that does not depend on the tokenizer."""

import math
from typing import TYPE_CHECKING

from zoo.gym.data import Record, encode_records
from zoo.gym.data.rows import EncodeOptions
from zoo.gym.measure.held_out import held_out

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.data import Tokenizer


def bits_per_byte(
    policy: "Policy", tokenizer: "Tokenizer", text: str, *, window_tokens: int = 256
) -> float:
    """Returns summed nats / ln 2 / UTF-8 bytes of `text`.

    The beginning-of-text token is prepended once; windows overlap by one token, so every token is
    predicted once. Without such a token the text's first token is not predicted.

    Raises:
        InputError: the text has no token to predict.
    """
    options = EncodeOptions(cutoff_len=window_tokens, think="template", date="2024-07-26")
    record = Record(source="text", kind="text", text=text)
    score = held_out(policy, encode_records([record], tokenizer, options).examples)
    return score.nats / math.log(2) / len(text.encode())
