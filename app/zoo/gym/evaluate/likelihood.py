"""Log-probabilities of choices and of held-out answers, by a loaded model.

A choice is read as lm-eval reads it: prompt and choice are tokenized as one text, and the
log-probabilities of the choice's tokens are summed, without a token of the end.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.backends.base import Policy
from zoo.backends.machine.threads import with_threads
from zoo.gym.data.rows import make_encoder, require_embeddings, tokenise_text, with_bos
from zoo.gym.data.units import Example
from zoo.gym.errors import InputError
from zoo.gym.evaluate.items import Item, Line
from zoo.gym.measure import row_nats

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession

OVERFLOW = "the numbers of the model overflow"

TOGETHER = 16
"""Items whose log-probabilities are computed before they are kept."""


def choice_lines(session: "ChatSession", items: Sequence[Item]) -> Iterator[Line]:
    """Yields the log-probability of each choice of each item, in nats.

    A template that can think is told not to: a choice follows at once.
    """
    if "enable_thinking" in str(session.tokenizer.chat_template):
        session = replace(session, options=replace(session.options, thinking=False))
    for start in range(0, len(items), TOGETHER):
        part = items[start : start + TOGETHER]
        encoded = [_encoded(session, item) for item in part]
        rows = [row for rows in encoded if not isinstance(rows, str) for row in rows]
        with with_threads(session.threads):
            logprobs = iter(_logprobs(session, rows))
        for item, read in zip(part, encoded, strict=True):
            line: dict[str, object] = {"row": item.row, "choices": list(item.choices)}
            if isinstance(read, str):
                yield line | {"error": read}
                continue
            values = [next(logprobs) for _ in read]
            if all(map(math.isfinite, values)):
                yield line | {"prompt_tokens": len(read[0].ids), "logprobs": values}
            else:
                yield line | {"error": OVERFLOW}


def loss_lines(session: "ChatSession", items: Sequence[Item]) -> Iterator[Line]:
    """Yields nats and tokens of each item's answer.

    Raises:
        InputError: one is not a number.
    """
    for start in range(0, len(items), TOGETHER):
        part = items[start : start + TOGETHER]
        examples = [item.example for item in part if item.example is not None]
        with with_threads(session.threads):
            logprobs = _logprobs(session, examples)
        for item, example, logprob in zip(part, examples, logprobs, strict=True):
            if not math.isfinite(logprob):
                raise InputError(f"row {item.row}: {OVERFLOW}", code="evaluate.overflow")
            yield {"row": item.row, "nats": -logprob, "tokens": int(example.mask.sum())}


def _encoded(session: "ChatSession", item: Item) -> list[Example] | str:
    """Returns prompt and choice in tokens for each choice, or why the model cannot read them."""
    try:
        rows = [_example(session, item, choice) for choice in item.choices]
    except InputError as error:
        return error.message
    longest = max(len(row.ids) for row in rows)
    if session.positions is not None and longest > session.positions:
        return f"prompt: expected at most {session.positions} tokens, got {longest}"
    return rows


def _example(session: "ChatSession", item: Item, choice: str) -> Example:
    import numpy as np

    encoder = make_encoder(session.tokenizer, session.options)
    if encoder.template is None:
        text = item.plain or "\n\n".join(turn.content for turn in item.task.messages)
        tokens = tokenise_text(encoder, f"{text} {choice}", [len(text)])
        ids = with_bos(session.tokenizer, tokens.ids)
        answer = len(tokens.ids) - tokens.first_from(len(text))
    else:
        read = tokenise_text(encoder, choice).ids
        ids, answer = [*session.prompt_ids(item.task.messages, item.task.tools), *read], len(read)
    require_embeddings(encoder, ids)
    mask = np.arange(len(ids)) >= len(ids) - answer
    return Example(np.array(ids, np.int64), mask, str(item.row), truncated=False)


def _logprobs(session: "ChatSession", rows: Sequence[Example]) -> list[float]:
    """Returns the summed log-probability of the learned tokens of each row."""
    if not rows:
        return []
    assert isinstance(session.policy, Policy), "see `requirements`"
    return [-nats for nats in row_nats(session.policy, rows)]
