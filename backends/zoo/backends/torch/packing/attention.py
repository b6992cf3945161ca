"""Attention within each of several rows that lie one after the other in one line.

transformers passes unknown arguments of a model on to its attention. So the ends of the rows reach
every layer, also when activations are recomputed, and no mask of all pairs of tokens is needed. A
prefix that rows share reaches it in the same way.
"""

from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.packing.prefix_attention import Layers, attend_after

ROW_ENDS = "row_ends"
"""The argument: the place after the last token of each row, in order."""

PREFIX_LAYERS = "prefix_layers"
"""The argument: keys and values of a prefix that all rows begin with."""


def install() -> None:
    """Makes transformers' `sdpa` attention follow these arguments; without, it is as before."""
    from transformers import AttentionInterface

    AttentionInterface.register("sdpa", attend)


def attend(
    module: nn.Module,
    query_1HLD: Tensor,
    key_1KLD: Tensor,
    value_1KLD: Tensor,
    attention_mask: Tensor | None,
    row_ends: tuple[int, ...] | None = None,
    prefix_layers: Layers | None = None,
    **options: Any,  # noqa: ANN401 - what the model passes to its attention
) -> tuple[Tensor, Tensor | None]:
    """Returns the attended values `[1, L, H, D]`, of each row for itself if `row_ends` is given."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    plain: Any = sdpa_attention_forward
    inputs = (query_1HLD, key_1KLD, value_1KLD)
    if prefix_layers is not None:
        return attend_after(module, *inputs, attention_mask, prefix_layers, plain, options)
    if row_ends is None:
        attended: tuple[Tensor, Tensor | None] = plain(module, *inputs, attention_mask, **options)
        return attended
    options["is_causal"] = True
    parts: list[Tensor] = []
    for start, end in zip((0, *row_ends), row_ends, strict=False):
        row = (tensor[:, :, start:end] for tensor in inputs)
        parts.append(plain(module, *row, None, **options)[0])
    return torch.cat(parts, 1), None
