"""A key-value cache that grows in place.

transformers' own cache copies the keys and values of all tokens for each new one; here they are
written to buffers with room for more. Only plain layers take part: those with a window or another
state are left alone.
"""

from typing import Any
from weakref import proxy

import torch
from torch import Tensor

ROOM_TOKENS = 128
"""The tokens that a new buffer has room for."""


def grow_in_place(cache: Any) -> None:  # noqa: ANN401
    """Makes the plain layers of a cache grow in place; other layers stay as they are.

    The cache must not be needed for a gradient.
    """
    from transformers.cache_utils import DynamicLayer

    for layer in getattr(cache, "layers", ()):
        if type(layer) is DynamicLayer and layer.get_seq_length():
            layer.update = _Growth(layer)  # type: ignore[method-assign]


class _Growth:
    """Appends keys and values to those of a layer."""

    def __init__(self, layer: Any) -> None:  # noqa: ANN401
        # the layer refers to this object: a strong reference back would be a cycle, whose buffers
        # are freed only by the garbage collector
        self._layer: Any = proxy(layer)
        self._buffers: dict[str, Tensor] = {}

    def __call__(
        self, key_states: Tensor, value_states: Tensor, *_given: object, **_options: object
    ) -> tuple[Tensor, Tensor]:
        """Returns the keys and the values of all tokens, `[B, H, P, D]`."""
        self._layer.keys = self._appended("keys", key_states)
        self._layer.values = self._appended("values", value_states)
        return self._layer.keys, self._layer.values

    def _appended(self, name: str, new: Tensor) -> Tensor:
        old: Tensor = getattr(self._layer, name)
        buffer, tokens = self._buffers.get(name), old.shape[-2]
        length = tokens + new.shape[-2]
        if buffer is None or old.data_ptr() != buffer.data_ptr() or length > buffer.shape[-2]:
            shape = (*old.shape[:-2], length + ROOM_TOKENS, old.shape[-1])
            buffer = self._buffers[name] = torch.empty(shape, dtype=old.dtype, device=old.device)
            buffer[..., :tokens, :] = old
        buffer[..., tokens:length, :] = new
        return buffer[..., :length, :]
