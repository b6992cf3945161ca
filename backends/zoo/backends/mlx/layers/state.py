"""What the adapted layers of a model read in each pass: whether they act, and their dropout."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import mlx.core as mx


@dataclass
class PassState:
    """The state of one pass, shared by all adapted layers of a model.

    Attributes:
        adapted: False while the model computes without its adapter.
        key: the random seed of dropout; None computes without dropout.
        part: the first token of the head's chunk, so that chunks have masks of their own.
    """

    adapted: bool = True
    key: int | None = None
    part: int = 0

    @contextmanager
    def learning(self, key: int | None) -> Generator[None]:
        """Sets the seed of dropout in the block."""
        previous, self.key = self.key, key
        try:
            yield
        finally:
            self.key = previous

    @contextmanager
    def off(self) -> Generator[None]:
        """Disables the adapter in the block, with its dropout."""
        previous, self.adapted = self.adapted, False
        try:
            with self.learning(None):
                yield
        finally:
            self.adapted = previous

    @contextmanager
    def chunk(self, part: int) -> Generator[None]:
        """Sets the first token of the head's chunk in the block."""
        self.part = part
        try:
            yield
        finally:
            self.part = 0

    def mask(self, share: float, index: int, shape: tuple[int, ...]) -> mx.array | None:
        """Returns the dropout mask of a layer, already divided by what is kept; None without.

        It depends on key, layer and chunk alone, so a pass that is repeated has the same masks.

        Args:
            share: the probability of dropping a value.
            index: the number of the layer.
            shape: the shape of the layer's input.
        """
        if self.key is None or not share:
            return None
        import numpy as np

        seed = np.random.SeedSequence([self.key, index, self.part]).generate_state(1, np.uint64)
        drawn: mx.array = mx.random.bernoulli(1 - share, shape, key=mx.random.key(int(seed[0])))
        return drawn.astype(mx.float32) / (1 - share)
