"""A prefix that many prompts begin with, read once; each batch has copies of its keys and values.

Only plain caches take part: keys and values of every token. Left out: one copy for all rows, which
needs attention in two parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from zoo.backends.base import Prefix
from zoo.backends.mlx.language import Language


@dataclass(frozen=True)
class KeptPrefix(Prefix):
    """A prefix on MLX.

    Attributes:
        layers: the keys and values of each layer, of one row.
        language: the model that read it.
        weights: its trained parameters then; another value is another array.
    """

    layers: list[tuple[mx.array, mx.array]] = field(repr=False)
    language: Language = field(repr=False)
    weights: tuple[mx.array, ...] = field(repr=False)


def read_prefix(language: Language, ids: Sequence[int], chunk_tokens: int) -> KeptPrefix | None:
    """Reads a prefix and keeps its keys and values; None if a layer keeps something else.

    Args:
        language: the model.
        ids: the tokens.
        chunk_tokens: how many are read at once.
    """
    from mlx_lm.models.cache import KVCache, make_prompt_cache

    caches = make_prompt_cache(language.model)
    if not ids or any(type(cache) is not KVCache for cache in caches):
        return None
    ids_1P = mx.array([list(ids)])
    with language.state.learning(None):
        for start in range(0, len(ids), chunk_tokens):
            language.hidden(ids_1P[:, start : start + chunk_tokens], caches)
            mx.eval([cache.state for cache in caches])
    pairs = ((cache.keys, cache.values) for cache in caches)
    layers = [tuple(mx.contiguous(part[:, :, : len(ids)]) for part in pair) for pair in pairs]
    mx.eval(layers)
    size = sum(part.nbytes for pair in layers for part in pair)
    arrays = [(keys, values) for keys, values in layers]
    return KeptPrefix(tuple(ids), size, arrays, language, _weights(language))


def check_prefix(
    language: Language, prefix: Prefix, prompts: Sequence[Sequence[int]]
) -> KeptPrefix:
    """Checks that a prefix is one of this model's weights and these prompts.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(prefix, KeptPrefix) or prefix.language is not language:
        raise ValueError("prefix: expected what this model has read, got that of another one")
    now = _weights(language)
    if any(weight is not then for weight, then in zip(now, prefix.weights, strict=True)):
        raise ValueError("prefix: expected the same weights as it was read with, got others")
    count = len(prefix.ids)
    if any(tuple(prompt[:count]) != prefix.ids or len(prompt) <= count for prompt in prompts):
        raise ValueError("prefix: expected prompts that begin with it and go on, got others")
    return prefix


def caches_after(prefix: KeptPrefix, rows: int) -> list[Any]:
    """Returns caches of several rows, each of which has read a prefix."""
    from mlx_lm.models.cache import BatchKVCache

    count = len(prefix.ids)
    caches: list[Any] = []
    for pair in prefix.layers:
        cache: Any = BatchKVCache([0] * rows)
        keys, values = (mx.repeat(part, rows, axis=0) for part in pair)
        cache.state = (keys, values, mx.array([count] * rows), mx.array([0] * rows), count)
        caches.append(cache)
    return caches


def _weights(language: Language) -> tuple[mx.array, ...]:
    return tuple(slot.get() for slot in language.slots.values())
