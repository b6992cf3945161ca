"""Attention of rows that begin with the same prefix, whose keys and values are kept once for all.

Legend: B rows, H heads, K heads of keys, G = H / K, Q new tokens, P tokens of the prefix, T tokens
of a row after it, D size of a head.

The next token of every row is computed in two parts, over the prefix and over the row's own tokens,
with one softmax over both: the prefix is read once and has no copies. Tokens of prompts are
computed row by row with the plain kernel, so that no scores of all pairs are kept.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

Layers: TypeAlias = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of the prefix in each layer, `[1, K, P, D]`."""

UNKNOWN = ("softcap", "s_aux", "position_bias", "sliding_window")
"""Options of an attention that the two parts do not compute."""


def attend_after(
    module: nn.Module,
    query_BHQD: Tensor,
    key_BKTD: Tensor,
    value_BKTD: Tensor,
    mask_B1QT: Tensor | None,
    layers: Layers,
    plain: Callable[..., tuple[Tensor, Tensor | None]],
    options: Mapping[str, Any],
) -> tuple[Tensor, None]:
    """Returns the attended values, `[B, Q, H, D]`.

    Args:
        module: the attention of a layer.
        query_BHQD: the queries.
        key_BKTD: the keys of each row after the prefix.
        value_BKTD: their values.
        mask_B1QT: True where a query sees a key of its own row; it sees the whole prefix.
        layers: the prefix.
        plain: transformers' attention of one row.
        options: what the model passes to its attention.

    Raises:
        ValueError: the mask or an option is not supported.
    """
    used = [name for name in UNKNOWN if options.get(name) is not None]
    if used or mask_B1QT is None or mask_B1QT.dtype != torch.bool:
        raise ValueError(f"a shared prefix: expected plain attention, got {used or 'another mask'}")
    index: Any = module.layer_idx
    cached = layers[index]
    if query_BHQD.shape[2] == 1:
        scale = options.get("scaling")
        scale = query_BHQD.shape[-1] ** -0.5 if scale is None else scale
        return _in_two_parts(query_BHQD * scale, key_BKTD, value_BKTD, mask_B1QT, cached), None
    rows = zip(query_BHQD, key_BKTD, value_BKTD, mask_B1QT, strict=True)
    return torch.cat([_row(module, *row, cached, plain, options) for row in rows]), None


def _row(
    module: nn.Module,
    query_HQD: Tensor,
    key_KTD: Tensor,
    value_KTD: Tensor,
    mask_1QT: Tensor,
    cached: tuple[Tensor, Tensor],
    plain: Callable[..., tuple[Tensor, Tensor | None]],
    options: Mapping[str, Any],
) -> Tensor:
    """Returns the attended values of one row, `[1, Q, H, D]`."""
    tokens, cached_tokens = cached[0].shape[2], cached[0].dtype
    key = torch.cat([cached[0], key_KTD[None].to(cached_tokens)], 2)
    value = torch.cat([cached[1], value_KTD[None].to(cached_tokens)], 2)
    mask = nn.functional.pad(mask_1QT[None], (tokens, 0), value=True)
    return plain(module, query_HQD[None], key, value, mask, **options)[0]


def _in_two_parts(
    query_BH1D: Tensor,
    key_BKTD: Tensor,
    value_BKTD: Tensor,
    mask_B11T: Tensor,
    cached: tuple[Tensor, Tensor],
) -> Tensor:
    """Returns the attended values of the next token of each row, `[B, 1, H, D]`."""
    (rows, heads, _, size), groups = query_BH1D.shape, key_BKTD.shape[1]
    query_BKGD = query_BH1D.reshape(rows, groups, heads // groups, size)
    query_KXD = query_BKGD.transpose(0, 1).reshape(groups, -1, size)  # X = B G
    first_KXP = query_KXD @ cached[0][0].transpose(-1, -2)
    own_BKGT = query_BKGD @ key_BKTD.transpose(-1, -2)
    own_BKGT = own_BKGT.masked_fill(~mask_B11T, -torch.inf)
    tokens = first_KXP.shape[-1]
    first_BKGP = first_KXP.reshape(groups, rows, -1, tokens).transpose(0, 1)
    weights = torch.cat([first_BKGP, own_BKGT], -1).softmax(-1, dtype=torch.float32)
    weights = weights.to(value_BKTD.dtype)
    first_KXP = weights[..., :tokens].transpose(0, 1).reshape(groups, -1, tokens)
    seen_KXD = first_KXP @ cached[1][0]
    seen_BKGD = seen_KXD.reshape(groups, rows, -1, size).transpose(0, 1)
    seen_BKGD = seen_BKGD + weights[..., tokens:] @ value_BKTD
    return seen_BKGD.reshape(rows, 1, heads, size)
