"""Batched sampling with mlx-lm's caches, and the model's own log-probabilities.

Legend: B rows, P prompt positions (padded on the left), V vocabulary.

Rows with equal prompts share one pass over the prompt, whose keys and values are then repeated; a
row that has ended leaves the batch. Each row has its own random stream, so an answer depends on its
key and not on other rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

from zoo.backends.base import Prefix, Sampling, TokenEvent
from zoo.backends.memory import DRAW_BYTES_A_TOKEN, SAMPLING_WIDTHS
from zoo.backends.memory import SAMPLING_BYTES as BATCH_BYTES
from zoo.backends.mlx.generation.draws import Draws
from zoo.backends.mlx.generation.prefix import KeptPrefix, caches_after, check_prefix
from zoo.backends.mlx.language import Language
from zoo.backends.sampling import Answers, check_rows

PREFILL_TOKENS = 512
"""The prompt's tokens that are read at once."""


def stream(
    language: Language,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    keys: Sequence[int],
    prefix: Prefix | None = None,
) -> Iterator[TokenEvent]:
    """Continues each prompt; see `Policy.stream`.

    Raises:
        ValueError: a prompt is empty, the number of keys differs from that of prompts, stop strings
            are without `decode`, or the prefix is another one.
    """
    check_rows(prompts, sampling, keys)
    read = None if prefix is None else check_prefix(language, prefix, prompts)
    return _events(language, prompts, sampling, keys, read)


def _events(
    language: Language,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    keys: Sequence[int],
    read: KeptPrefix | None,
) -> Iterator[TokenEvent]:
    """Yields the tokens, batch after batch."""
    for batch in _batches(language, prompts, sampling.max_new_tokens):
        draws, answers = Draws(sampling, [keys[i] for i in batch]), Answers(sampling, batch)
        try:
            with language.state.learning(None):
                rows = [tuple(prompts[i]) for i in batch]
                yield from _continue(language, rows, draws, answers, read)
        finally:  # also if the iterator is closed
            mx.clear_cache()


def _batches(
    language: Language, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> Iterator[list[int]]:
    """Yields groups of indices of prompts that run in one batch: equal prompts are neighbours."""
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), tuple(prompts[i])))
    longest = len(prompts[order[-1]]) + max_new_tokens
    most = max(1, BATCH_BYTES // bytes_of_row(language, longest))
    for start in range(0, len(order), most):
        yield order[start : start + most]


def bytes_of_row(language: Language, tokens: int) -> int:
    """Returns the memory that a row of this many tokens takes in a batch that is sampled."""
    config = language.loaded.config
    hidden: int = config["hidden_size"]
    heads: int = config["num_attention_heads"]
    width: int = config.get("head_dim") or hidden // heads
    keys: int = config.get("num_key_value_heads") or heads
    cache_bytes: int = 2 * config["num_hidden_layers"] * keys * width * 4
    a_token = max(cache_bytes, 4 * SAMPLING_WIDTHS * hidden)
    return tokens * a_token + DRAW_BYTES_A_TOKEN * language.head.tokens


def _continue(
    language: Language,
    prompts: list[tuple[int, ...]],
    draws: Draws,
    answers: Answers,
    read: KeptPrefix | None,
) -> Iterator[TokenEvent]:
    """Samples the answers of prompts in one batch."""
    distinct = list(dict.fromkeys(prompts))
    text = Decoding(language, distinct, read)
    logits_BV = text.read_prompts()
    if len(distinct) < len(prompts):
        rows = [distinct.index(prompt) for prompt in prompts]
        text.select(rows)
        logits_BV = logits_BV[mx.array(rows)]
    while True:
        chosen_B, logprobs_B, tops = draws.draw(logits_BV)
        tokens: list[int] = chosen_B.tolist()
        yield from answers.add(tokens, logprobs_B.tolist(), tops)
        unfinished = answers.unfinished
        if not unfinished:
            return
        if len(unfinished) < len(tokens):
            for part in (text, draws, answers):
                part.select(unfinished)
            tokens = [tokens[index] for index in unfinished]
        logits_BV = text.read(mx.array(tokens)[:, None])


class Decoding:
    """A batch of texts that a model continues.

    Args:
        language: the model.
        prompts: the texts so far, which are padded to one length: on the left, or, after a kept
            prefix, on the right until they are read.
        kept: what all of them begin with, if it was read before.
    """

    def __init__(
        self,
        language: Language,
        prompts: Sequence[Sequence[int]],
        read: KeptPrefix | None = None,
    ) -> None:
        self._language = language
        offset = 0 if read is None else len(read.ids)
        self._left = [list(prompt[offset:]) for prompt in prompts]
        width = max(map(len, self._left))
        self._padding = [width - len(row) for row in self._left]
        self._follows = read is not None
        if read is None:
            self._caches = [_batched(cache, self._padding) for cache in _single_caches(language)]
        else:
            self._caches = caches_after(read, len(prompts))

    def read_prompts(self) -> mx.array:
        """Returns the logits after each prompt, float32 `[B, V]`."""
        if self._follows:
            return self._read_after()
        padded = [[0] * pad + row for pad, row in zip(self._padding, self._left, strict=True)]
        ids_BP = mx.array(padded)
        last = ids_BP.shape[1] - 1
        for start in range(0, last, PREFILL_TOKENS):
            self._language.hidden(
                ids_BP[:, start : min(start + PREFILL_TOKENS, last)], self._caches
            )
            mx.eval([cache.state for cache in self._caches])
        return self.read(ids_BP[:, last:])

    def _read_after(self) -> mx.array:
        """Reads what follows the kept prefix: padding moves to the left when all is read."""
        padded = [suffix + [0] * pad for pad, suffix in zip(self._padding, self._left, strict=True)]
        ids_BP = mx.array(padded)
        hidden: dict[int, mx.array] = {}
        for cache in self._caches:
            cache.prepare(right_padding=self._padding)
        for start in range(0, ids_BP.shape[1], PREFILL_TOKENS):
            hidden_BTD = self._language.hidden(
                ids_BP[:, start : start + PREFILL_TOKENS], self._caches
            )
            places = {row: len(suffix) - 1 - start for row, suffix in enumerate(self._left)}
            ends = [row for row, at in places.items() if 0 <= at < hidden_BTD.shape[1]]
            hidden |= {row: hidden_BTD[row, places[row]] for row in ends}
            mx.eval(hidden, [cache.state for cache in self._caches])
        for cache in self._caches:
            cache.finalize()
        head = self._language.head
        return head.transformed(head.product(mx.stack([hidden[row] for row in sorted(hidden)])))

    def read(self, ids_B1: mx.array) -> mx.array:
        """Appends a token to each text and returns the logits after it, float32 `[B, V]`."""
        hidden_BD = self._language.hidden(ids_B1, self._caches)[:, -1]
        head = self._language.head
        return head.transformed(head.product(hidden_BD))

    def select(self, rows: Sequence[int]) -> None:
        """Keeps the texts of these rows, in this order; a row may occur several times."""
        for cache in self._caches:
            cache.filter(mx.array(rows))


def _single_caches(language: Language) -> list[Any]:
    from mlx_lm.models.cache import make_prompt_cache

    caches: list[Any] = make_prompt_cache(language.model)
    return caches


def _batched(cache: Any, padding: list[int]) -> Any:  # noqa: ANN401
    """Returns an empty cache for several rows in place of one for a single row."""
    from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, KVCache, RotatingKVCache

    if type(cache) is KVCache:
        return BatchKVCache(padding)
    assert type(cache) is RotatingKVCache, type(cache)
    return BatchRotatingKVCache(cache.max_size, padding)
