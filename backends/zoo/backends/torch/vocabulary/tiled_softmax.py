"""Softmax over the vocabulary and its gradients, one tile of tokens and words at a time.

Legend: N scored tokens, C tokens of a tile, W words of a tile, D hidden size, V vocabulary.

With the running maximum and sum of online softmax (arXiv:1805.02867), one pass over the head is
enough: each block of words is widened to float32 once for all tokens, and the largest buffer is a
tile that fits in a processor's cache. The results are a log-normaliser per token and, for
gradients, the mean row of the head under the predicted probabilities; the full matrix of logits
is never formed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.backends.torch.compat import MIXED_PRODUCTS
from zoo.backends.torch.numbers.precision import exact_products

CPU_TILE = (512, 4096)
DEVICE_TILE = (1024, 32_768)
"""Tokens and words of a tile: to fit in a CPU's cache, or to keep a GPU busy with 134 MB."""


@dataclass(frozen=True)
class Tiles:
    """Hidden states and head, split into tiles.

    Attributes:
        hidden_ND: hidden states, in the type of the products.
        weight_VD: the head's weight as stored.
        tokens: the number of tokens in a tile.
        words: the number of words in a tile.
    """

    hidden_ND: Tensor
    weight_VD: Tensor
    tokens: int
    words: int

    def token_parts(self) -> Iterator[slice]:
        """Yields the tokens of each tile in order."""
        for start in range(0, self.hidden_ND.shape[0], self.tokens):
            yield slice(start, min(start + self.tokens, self.hidden_ND.shape[0]))

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yields the head's rows block by block, in the type of the products."""
        words, hidden = self.weight_VD.shape
        wide = None
        for start in range(0, words, self.words):
            part = slice(start, min(start + self.words, words))
            rows_WD = self.weight_VD[part]
            if rows_WD.dtype is not self.hidden_ND.dtype:
                if wide is None:
                    wide = self.hidden_ND.new_empty(min(self.words, words), hidden)
                rows_WD = wide[: part.stop - start].copy_(rows_WD)
            yield part, rows_WD

    def buffer(self) -> Tensor:
        """Returns a buffer for one tile of logits."""
        tokens = min(self.tokens, self.hidden_ND.shape[0])
        words = min(self.words, self.weight_VD.shape[0])
        return self.hidden_ND.new_empty(tokens * words, dtype=torch.float32)


def tiles(hidden_ND: Tensor, weight_VD: Tensor) -> Tiles:
    """Chooses tiles for the device: a CPU multiplies float32, a GPU the stored 16-bit values."""
    tokens, words = CPU_TILE if weight_VD.device.type == "cpu" else DEVICE_TILE
    dtype = weight_VD.dtype if weight_VD.is_cuda and MIXED_PRODUCTS else torch.float32
    return Tiles(hidden_ND.to(dtype), weight_VD, tokens, words)


def product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Writes `left @ right` into `out`, summed in float32 for any type of the factors."""
    if left.dtype is torch.float32:
        return torch.mm(left, right, out=out)
    return torch.mm(left, right, out_dtype=torch.float32, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Adds `left @ right` to float32 `total`; `left` takes the type of `right`."""
    if right.dtype is torch.float32:
        return total.addmm_(left, right)
    return total.add_(torch.mm(left.to(right.dtype), right, out_dtype=torch.float32))


def tile_logits(cut: Tiles, part: slice, rows_WD: Tensor, buffer: Tensor) -> Tensor:
    """Returns the float32 logits of one tile, `[C, W]`, in `buffer`."""
    shape = part.stop - part.start, rows_WD.shape[0]
    z_CW = buffer[: shape[0] * shape[1]].view(shape)
    return product(cut.hidden_ND[part], rows_WD.T, z_CW)


@torch.no_grad()
def normalise(
    hidden_ND: Tensor, weight_VD: Tensor, *, mean_rows: bool
) -> tuple[Tensor, Tensor | None]:
    """Returns log(sum(exp(logits))) of each token `[N]`, and softmax(logits) @ weight `[N, D]`.

    Args:
        hidden_ND: the hidden states.
        weight_VD: the head.
        mean_rows: whether to compute the second, in float32.
    """
    cut = tiles(hidden_ND, weight_VD)
    count = hidden_ND.shape[0]
    top_N = torch.full((count,), -torch.inf, device=weight_VD.device)
    total_N = torch.zeros_like(top_N)
    mean_ND = torch.zeros_like(hidden_ND, dtype=torch.float32) if mean_rows else None
    buffer = cut.buffer()
    with exact_products(weight_VD.dtype, hidden_ND.dtype):
        for _, rows_WD in cut.blocks():
            for part in cut.token_parts():
                z_CW = tile_logits(cut, part, rows_WD, buffer)
                new_top_C = torch.maximum(top_N[part], z_CW.amax(-1))
                shrink_C = torch.exp(top_N[part] - new_top_C)
                z_CW.sub_(new_top_C[:, None]).exp_()
                total_N[part] = total_N[part] * shrink_C + z_CW.sum(-1)
                top_N[part] = new_top_C
                if mean_ND is not None:
                    add_product(mean_ND[part].mul_(shrink_C[:, None]), z_CW, rows_WD)
    if mean_ND is not None:
        mean_ND /= total_N[:, None]
    return top_N + total_N.log(), mean_ND


@torch.no_grad()
def weighted_gradients(
    hidden_ND: Tensor, weight_VD: Tensor, normaliser_N: Tensor, weight_N: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of sum(weight * -normaliser) for hidden states and head, float32.

    Args:
        hidden_ND: the hidden states.
        weight_VD: the head.
        normaliser_N: from `normalise`.
        weight_N: the weight of each token.
    """
    cut = tiles(hidden_ND, weight_VD)
    dhidden_ND = torch.zeros_like(hidden_ND, dtype=torch.float32)
    dweight_VD = torch.zeros_like(weight_VD, dtype=torch.float32)
    buffer = cut.buffer()
    with exact_products(weight_VD.dtype, hidden_ND.dtype):
        for words, rows_WD in cut.blocks():
            for part in cut.token_parts():
                z_CW = tile_logits(cut, part, rows_WD, buffer)
                z_CW.sub_(normaliser_N[part, None]).exp_().mul_(-weight_N[part, None])
                add_product(dhidden_ND[part], z_CW, rows_WD)
                add_product(dweight_VD[words], z_CW.T, cut.hidden_ND[part])
    return dhidden_ND, dweight_VD
