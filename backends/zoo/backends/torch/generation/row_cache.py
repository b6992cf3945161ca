"""Keys and values of rows that come and go: a layer's buffers, and the part that a pass reads.

Legend: S rows that there is room for, B rows being answered, H key heads, L tokens that there is
room for, D head size, T new tokens.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

FIRST_TOKENS = 256
"""The tokens that buffers have room for at first; they grow by doubling."""


@dataclass
class Table:
    """Which part of the buffers a forward pass reads and writes.

    Attributes:
        first: the first row.
        ends: for each row, the place of its first new token.
        new: T.
        width: the places that are read, up to the last new token.
        is_even: whether all rows have the same end.
    """

    first: int = 0
    ends: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    new: int = 1
    width: int = 0
    is_even: bool = False

    def move(self, first: int, ends: list[int], new: int, device: torch.device) -> None:
        """Chooses another part; see the attributes."""
        self.first, self.new = first, new
        self.ends = torch.tensor(ends, device=device)
        self.width, self.is_even = max(ends) + new, len(set(ends)) == 1


class Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one attention layer."""

    is_compileable, is_sliding = False, False
    key_rows: Tensor
    value_rows: Tensor

    def __init__(self, table: Table) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.is_initialized = False

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Makes buffers for one row: zeros, as a masked value counts as 0 times what it is."""
        self.key_rows, self.value_rows = (
            part.new_zeros(1, part.shape[1], FIRST_TOKENS, part.shape[3])
            for part in (key_states, value_states)
        )
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Writes new tokens, and returns all of the rows, `[B, H, L, D]`."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        table, B = self.table, len(key_states)
        rows, width = slice(table.first, table.first + B), table.width
        self.reserve(rows.stop, width)
        if not table.is_even:
            places_B1 = torch.arange(rows.start, rows.stop, device=key_states.device)[:, None]
            tokens_T = torch.arange(table.new, device=key_states.device)
            tokens_BT = table.ends[:, None] + tokens_T
            self.key_rows[places_B1, :, tokens_BT] = key_states.transpose(1, 2)
            self.value_rows[places_B1, :, tokens_BT] = value_states.transpose(1, 2)
        else:
            start = width - table.new
            self.key_rows[rows, :, start:width] = key_states
            self.value_rows[rows, :, start:width] = value_states
        return self.key_rows[rows, :, :width], self.value_rows[rows, :, :width]

    def reserve(self, rows: int, tokens: int) -> None:
        """Makes room for so many rows and tokens."""
        S, _, L, _ = self.key_rows.shape
        if rows > S or tokens > L:
            size = (doubled(S, rows), doubled(L, tokens))
            self.key_rows, self.value_rows = (
                _enlarged(part, *size) for part in (self.key_rows, self.value_rows)
            )

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copies the first tokens of a row to another one."""
        self.reserve(target + 1, tokens)
        for part in (self.key_rows, self.value_rows):
            part[target, :, :tokens] = part[source, :, :tokens]

    def clear(self, row: int) -> None:
        """Fills a row with zeros."""
        self.key_rows[row] = 0
        self.value_rows[row] = 0

    def swap(self, first: int, second: int, tokens: int) -> None:
        """Exchanges the first tokens of two rows."""
        for part in (self.key_rows, self.value_rows):
            earlier = part[first, :, :tokens].clone()
            part[first, :, :tokens] = part[second, :, :tokens]
            part[second, :, :tokens] = earlier

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Returns the number of keys, and their first place."""
        del query_length
        return self.table.width, 0

    def get_seq_length(self) -> int:
        """Returns the number of keys."""
        return self.table.width if len(self.table.ends) else 0

    def get_max_length(self) -> int:
        """Returns -1: the buffers grow."""
        return -1

    def get_max_cache_shape(self) -> int:
        """Returns -1: the buffers grow."""
        return -1

    def reset(self) -> None:
        """Does nothing: what is masked is not read."""

    @property
    def room(self) -> tuple[int, int]:
        """S and L."""
        return (self.key_rows.shape[0], self.key_rows.shape[2]) if self.is_initialized else (0, 0)

    def free(self) -> None:
        """Gives the buffers back."""
        self.is_initialized = False
        self.key_rows = self.value_rows = torch.empty(0)


def doubled(room: int, needed: int) -> int:
    """Returns room for what is needed, the first in doubled steps."""
    while room < needed:
        room *= 2
    return room


def _enlarged(part: Tensor, S: int, L: int) -> Tensor:
    larger = part.new_zeros(S, part.shape[1], L, part.shape[3])
    larger[: len(part), :, : part.shape[2]] = part
    return larger
