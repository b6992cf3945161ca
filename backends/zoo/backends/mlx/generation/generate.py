"""Batched sampling with mlx-lm's caches, and the model's own log-probabilities.

Legend: B rows, P prompt positions (padded on the left), V vocabulary.

Rows with equal prompts share one pass over the prompt, whose keys and values are then repeated; a
row that has ended leaves the batch. Each row has its own random stream, so an answer depends on its
key and not on other rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

from zoo.backends.base import Rollout, Sampling
from zoo.backends.memory import DRAW_BYTES_A_TOKEN, SAMPLING_WIDTHS
from zoo.backends.memory import SAMPLING_BYTES as BATCH_BYTES
from zoo.backends.mlx.generation.draws import Draws
from zoo.backends.mlx.language import Language

PREFILL_TOKENS = 512
"""The prompt's tokens that are read at once."""


def generate(
    language: Language, prompts: Sequence[Sequence[int]], sampling: Sampling, keys: Sequence[int]
) -> list[Rollout]:
    """Continues each prompt until a stop id or `max_new_tokens`.

    Raises:
        ValueError: a prompt is empty, or the number of keys differs from that of prompts.
    """
    if len(keys) != len(prompts) or not all(prompts):
        raise ValueError("generate: expected one key per prompt and no empty prompt")
    answers: dict[int, Rollout] = {}
    for batch in _batches(language, prompts, sampling.max_new_tokens):
        draws = Draws(sampling, [keys[i] for i in batch])
        with language.state.learning(None):
            _continue(language, [tuple(prompts[i]) for i in batch], draws)
        answers |= dict(zip(batch, draws.rollouts(), strict=True))
        mx.clear_cache()
    return [answers[i] for i in range(len(prompts))]


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
    kept: int = 2 * config["num_hidden_layers"] * keys * width * 4
    a_token = max(kept, 4 * SAMPLING_WIDTHS * hidden)
    return tokens * a_token + DRAW_BYTES_A_TOKEN * language.head.tokens


def _continue(language: Language, prompts: list[tuple[int, ...]], draws: Draws) -> None:
    """Samples the answers of prompts in one batch."""
    distinct = list(dict.fromkeys(prompts))
    text = Decoding(language, distinct)
    logits_BV = text.read_prompts(distinct)
    if len(distinct) < len(prompts):
        rows = [distinct.index(prompt) for prompt in prompts]
        text.select(rows)
        logits_BV = logits_BV[mx.array(rows)]
    while True:
        chosen, unfinished = draws.draw(logits_BV)
        if not unfinished:
            return
        if len(unfinished) < len(chosen):
            text.select(unfinished)
            draws.select(unfinished)
            chosen = [chosen[place] for place in unfinished]
        logits_BV = text.read(mx.array(chosen)[:, None])


class Decoding:
    """A batch of texts that a model continues.

    Args:
        language: the model.
        prompts: the texts so far, which are padded on the left to one length.
    """

    def __init__(self, language: Language, prompts: Sequence[Sequence[int]]) -> None:
        self._language = language
        width = max(map(len, prompts))
        self._padding = [width - len(prompt) for prompt in prompts]
        self._caches = [_batched(one, self._padding) for one in _single_caches(language)]

    def read_prompts(self, prompts: Sequence[Sequence[int]]) -> mx.array:
        """Returns the logits after each prompt, float32 `[B, V]`."""
        padded = [[0] * pad + list(p) for pad, p in zip(self._padding, prompts, strict=True)]
        ids_BP = mx.array(padded)
        last = ids_BP.shape[1] - 1
        for start in range(0, last, PREFILL_TOKENS):
            self._language.hidden(
                ids_BP[:, start : min(start + PREFILL_TOKENS, last)], self._caches
            )
            mx.eval([one.state for one in self._caches])
        return self.read(ids_BP[:, last:])

    def read(self, ids_B1: mx.array) -> mx.array:
        """Appends a token to each text and returns the logits after it, float32 `[B, V]`."""
        hidden_BD = self._language.hidden(ids_B1, self._caches)[:, -1]
        head = self._language.head
        return head.transformed(head.product(hidden_BD))

    def select(self, rows: Sequence[int]) -> None:
        """Keeps the texts of these rows, in this order; a row may occur several times."""
        for one in self._caches:
            one.filter(mx.array(rows))


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
