"""Rows that begin with the same tokens, packed so that these tokens are computed once.

Legend: B rows, T positions, R prompts, L positions of a packed row, N learned tokens, D hidden
size.

A packed row is a prompt, followed by the remaining tokens of each row that begins with it. Tokens
keep the positions that they have in their own rows, and an attention mask hides the other rows, so
hidden states and gradients are those of separate rows up to rounding. One forward computes all, so
recomputed activations and distributed wrappers work as usual.

Left out: models that ignore masks or positions (found on a few tokens, see `packable`), rows
longer than a sliding window, and training with dropout, whose noise rows would share.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.backends.base import Batch
    from zoo.backends.torch.loss import LossModule

PADDING = -1
"""The segment of padding; that of a prompt is 0, those of its rows are 1, 2, ..."""


@dataclass(frozen=True)
class Packed:
    """Packed rows on the device.

    Attributes:
        ids_RL: the token ids.
        positions_RL: the position of each token in its own row.
        segments_RL: the row within the prompt's group that a token belongs to.
        places_N: the place in the flat `[R * L]` of the token before each learned token.
    """

    ids_RL: Tensor
    positions_RL: Tensor
    segments_RL: Tensor
    places_N: Tensor

    def inputs(self, module: "LossModule") -> dict[str, Any]:
        """Returns the arguments of the backbone."""
        return {
            "input_ids": self.ids_RL,
            "position_ids": self.positions_RL,
            "attention_mask": module.as_given(self.mask()),
        }

    def mask(self) -> Tensor:
        """Returns the tokens that each token attends to, bool `[R, 1, L, L]`."""
        length = self.ids_RL.shape[1]
        earlier_LL = torch.ones(length, length, dtype=torch.bool, device=self.ids_RL.device).tril()
        queries_RL1, keys_R1L = self.segments_RL[:, :, None], self.segments_RL[:, None, :]
        # padding attends to padding, because a softmax over nothing is NaN
        visible_RLL = (keys_R1L == 0) | (keys_R1L == queries_RL1)
        return (visible_RLL & earlier_LL)[:, None]

    def gather(self, hidden_RLD: Tensor) -> Tensor:
        """Returns `[N, D]`: the hidden state before each learned token."""
        return hidden_RLD.flatten(0, 1).index_select(0, self.places_N)


def pack(batch: "Batch", device: torch.device) -> Packed:
    """Packs the rows of a batch that has a prefix.

    Raises:
        ValueError: rows of one prompt begin with other tokens, or are shorter than it.
    """
    prefix = batch.prefix
    assert prefix is not None
    _check(batch)
    shared_B = prefix.lengths_R[prefix.prompt_B]
    # nothing is predicted from the last token of a row
    own_B = np.maximum(batch.lengths_B - 1 - shared_B, 0)
    sizes_R = prefix.lengths_R + np.bincount(prefix.prompt_B, own_B, len(prefix.lengths_R))
    shape = (len(prefix.lengths_R), int(sizes_R.max()))
    ids_RL, positions_RL = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    segments_RL, places_BT = np.full(shape, PADDING), np.zeros(batch.ids_BT.shape, np.int64)
    ends_R, rows_R = prefix.lengths_R.copy(), np.zeros(shape[0], np.int64)
    positions_T = np.arange(batch.ids_BT.shape[1])
    for row, prompt in enumerate(prefix.prompt_B):
        shared, unshared, start = int(shared_B[row]), int(own_B[row]), int(ends_R[prompt])
        ends_R[prompt], rows_R[prompt] = start + unshared, rows_R[prompt] + 1
        for target, first, count, segment in (
            (0, 0, shared, 0),
            (start, shared, unshared, rows_R[prompt]),
        ):
            packed, plain = slice(target, target + count), slice(first, first + count)
            ids_RL[prompt, packed] = batch.ids_BT[row, plain]
            positions_RL[prompt, packed] = positions_T[plain]
            segments_RL[prompt, packed] = segment
            places_BT[row, plain] = prompt * shape[1] + np.arange(target, target + count)
    places_N = places_BT[:, :-1][batch.loss_mask_BT[:, 1:]]
    arrays = (ids_RL, positions_RL, segments_RL, places_N)
    return Packed(*(torch.from_numpy(array).to(device) for array in arrays))


def _check(batch: "Batch") -> None:
    """Checks that the rows of a prompt begin with the same tokens."""
    prefix = batch.prefix
    assert prefix is not None
    first: dict[int, NDArray[np.int64]] = {}
    for row, prompt in enumerate(prefix.prompt_B.tolist()):
        shared = batch.ids_BT[row, : prefix.lengths_R[prompt]]
        if len(shared) > batch.lengths_B[row]:
            raise ValueError(f"prefix: row {row}: expected at most its own tokens, got more")
        if not np.array_equal(first.setdefault(prompt, shared), shared):
            raise ValueError(f"prefix: row {row}: expected the tokens of its prompt, got others")
