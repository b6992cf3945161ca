"""Attention within each of several rows that lie one after the other in one line.

transformers passes unknown arguments of a model on to its attention. So the ends of the rows reach
every layer, also when activations are recomputed, and no mask of all pairs of tokens is needed.
"""

from typing import Any

import torch
from torch import Tensor, nn

ROW_ENDS = "row_ends"
"""The argument: the place after the last token of each row, in order."""


def install() -> None:
    """Makes transformers' `sdpa` attention follow `row_ends`; without it, it is as before."""
    from transformers import AttentionInterface

    AttentionInterface.register("sdpa", attend)


def attend(
    module: nn.Module,
    query_1HLD: Tensor,
    key_1KLD: Tensor,
    value_1KLD: Tensor,
    attention_mask: Tensor | None,
    row_ends: tuple[int, ...] | None = None,
    **options: Any,  # noqa: ANN401 - what the model passes to its attention
) -> tuple[Tensor, Tensor | None]:
    """Returns the attended values `[1, L, H, D]`, of each row for itself if `row_ends` is given."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    plain: Any = sdpa_attention_forward
    inputs = (query_1HLD, key_1KLD, value_1KLD)
    if row_ends is None:
        found: tuple[Tensor, Tensor | None] = plain(module, *inputs, attention_mask, **options)
        return found
    options["is_causal"] = True
    parts: list[Tensor] = []
    for start, end in zip((0, *row_ends), row_ends, strict=False):
        row = (tensor[:, :, start:end] for tensor in inputs)
        parts.append(plain(module, *row, None, **options)[0])
    return torch.cat(parts, 1), None
