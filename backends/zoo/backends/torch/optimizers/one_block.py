"""BAdam (arXiv:2404.02827, algorithm 1): AdamW on one block of the model at a time.

Only the active block has gradients and averages; both are dropped when the next one takes its turn.
Parameters outside of blocks (embeddings, heads, the last norm) stay as they are, as in the authors'
package; a value head, which is new, is always trained.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import nn

from zoo.backends.base import BlockSpec
from zoo.backends.torch.optimizers.blocks import block_of
from zoo.core.errors import InputError

BETAS = (0.9, 0.999)

ALWAYS = "value_head."
"""The parameters whose names begin so are trained beside each block."""


class OneBlockAdamW(torch.optim.AdamW):
    """AdamW whose parameters outside of the active block are frozen.

    Args:
        groups: torch's groups of all parameters.
        parameters: the trained parameters, by name.
        spec: the order of the blocks.

    Attributes:
        steps: the steps taken, from which the active block follows.

    Raises:
        InputError: no trained parameter is in a block, or there is no such first block.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        parameters: Mapping[str, nn.Parameter],
        spec: BlockSpec,
    ) -> None:
        super().__init__(groups, lr=0.0, betas=BETAS, fused=True)
        blocks: dict[str, list[nn.Parameter]] = {}
        for name, parameter in parameters.items():
            if block := block_of(name):
                blocks.setdefault(block, []).append(parameter)
        self.blocks, self.spec, self.steps = list(blocks.values()), spec, 0
        if not blocks:
            raise InputError(
                "optim: badam: expected trained blocks of the model, got none",
                code="torch.no_trained_blocks",
            )
        check_first(len(blocks), spec)
        for name, parameter in parameters.items():
            parameter.requires_grad = name.startswith(ALWAYS)
        self._activate()

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Steps the active block, and activates the next one if it is time."""
        assert closure is None
        super().step()
        self.resume_at(self.steps + 1)

    def resume_at(self, steps: int) -> None:
        """Activates the block that is trained after a number of steps."""
        previous, self.steps = self.active, steps
        if previous != place_of(steps // self.spec.interval, len(self.blocks), self.spec):
            state = cast("dict[nn.Parameter, Any]", self.state)
            for parameter in self.blocks[previous]:
                parameter.requires_grad, parameter.grad = False, None
                state.pop(parameter, None)
            self._activate()

    def _activate(self) -> None:
        turn = self.steps // self.spec.interval
        self.active = place_of(turn, len(self.blocks), self.spec)
        for parameter in self.blocks[self.active]:
            parameter.requires_grad = True


def check_first(count: int, spec: BlockSpec) -> None:
    """Refuses a first block that is not among the `count` that are trained.

    Raises:
        InputError: there is no such block.
    """
    if (spec.start or 0) >= count:
        expected = f"expected 0 to {count - 1}, the blocks that are trained"
        raise InputError(
            f"badam_start_block: {expected}, got {spec.start}", code="torch.no_such_block"
        )


def place_of(turn: int, count: int, spec: BlockSpec) -> int:
    """Returns the place of the block that is trained in a turn, both counted from 0.

    >>> [place_of(turn, 3, BlockSpec("descending")) for turn in range(4)]
    [2, 1, 0, 2]
    """
    first = (count - 1 if spec.order == "descending" else 0) if spec.start is None else spec.start
    if spec.order == "fixed":
        return first
    if spec.order == "ascending":
        return (first + turn) % count
    if spec.order == "descending":
        return (first - turn) % count
    if spec.start is not None:
        if not turn:
            return first
        turn -= 1
    draw = torch.Generator().manual_seed(spec.seed + turn // count)
    return int(torch.randperm(count, generator=draw)[turn % count])
