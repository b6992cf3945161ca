"""Rows of different lengths, one after the other in one line, so that none is padded.

Legend: B rows, T positions, L tokens of a line, N learned tokens, D hidden size.

Each token has the position that it has in its own row, and attends to that row only (`attention`),
so hidden states and gradients are those of padded rows up to rounding.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from zoo.backends.torch.packing.attention import ROW_ENDS

if TYPE_CHECKING:
    from zoo.backends.base import Batch
    from zoo.backends.torch.loss import LossModule


@dataclass(frozen=True)
class Line:
    """The rows of a batch on the device.

    Attributes:
        ids_1L: the token ids, of each row all but the last, from which nothing is predicted.
        positions_1L: the position of each token in its row.
        ends: the place after the last token of each row.
        places_N: the place of the token before each learned token.
    """

    ids_1L: Tensor
    positions_1L: Tensor
    ends: tuple[int, ...]
    places_N: Tensor

    def inputs(self, module: "LossModule") -> dict[str, Any]:
        """Returns the arguments of the backbone."""
        del module
        # without a mask the model would make one of all pairs; `attend` takes none
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.ids_1L.device)
        return {
            "input_ids": self.ids_1L,
            "position_ids": self.positions_1L,
            "attention_mask": mask,
            ROW_ENDS: self.ends,
        }

    def gather(self, hidden_1LD: Tensor) -> Tensor:
        """Returns `[N, D]`: the hidden state before each learned token."""
        return hidden_1LD[0].index_select(0, self.places_N)


def line_up(batch: "Batch", device: torch.device) -> Line:
    """Puts the rows of a batch into one line."""
    read_B = np.maximum(batch.lengths_B - 1, 0)
    ends_B = np.cumsum(read_B)
    real_BT = np.arange(batch.ids_BT.shape[1])[None] < read_B[:, None]
    places_BT = np.zeros(batch.ids_BT.shape, np.int64)
    places_BT[real_BT] = np.arange(int(read_B.sum()))
    positions_BT = np.broadcast_to(np.arange(batch.ids_BT.shape[1]), batch.ids_BT.shape)
    places_N = places_BT[:, :-1][batch.loss_mask_BT[:, 1:]]
    arrays = (batch.ids_BT[real_BT][None], positions_BT[real_BT][None], places_N)
    ids_1L, positions_1L, places = (torch.from_numpy(array).to(device) for array in arrays)
    ends = tuple(int(end) for end, length in zip(ends_B, read_B, strict=True) if length)
    return Line(ids_1L, positions_1L, ends, places)
