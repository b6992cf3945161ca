"""Each row of a batch with a low-rank adapter of its own, on one base.

Legend: B rows, T positions, I inputs, O outputs, R rank.

y = W x + B_row A_row x. The factors of the rows are gathered when rows come or go, not for each
token; ranks below the largest are padded with zeros.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.batching import Factors
from zoo.backends.torch.adapters.placement import linear_layers
from zoo.core.errors import InputError

Pair = tuple[Tensor, Tensor]


class RowAdapters:
    """The adapters of a model, and the one that each row uses.

    Args:
        model: a model without an adapter; its linear layers below the head get a hook.
    """

    def __init__(self, model: nn.Module) -> None:
        head: Any = model.get_output_embeddings()  # type: ignore[operator]
        # the head may be computed without its module
        self._layers = {name: layer for name, layer in linear_layers(model) if layer is not head}
        self._device = next(model.parameters()).device
        self._adapters: dict[str, dict[str, Pair]] = {}
        self._rows: list[dict[str, Pair] | None] = []
        self._gathered: dict[str, Pair] = {}
        self._active = False
        self._hooks = [
            layer.register_forward_hook(self._hook(name)) for name, layer in self._layers.items()
        ]

    def close(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks:
            hook.remove()

    def add(self, name: str, factors: Factors) -> None:
        """Keeps an adapter; rows that use an earlier one of this name go on with that.

        Raises:
            InputError: a layer is missing, or a factor has another shape.
        """
        pairs: dict[str, Pair] = {}
        for layer, (A, B) in factors.items():
            module: Any = self._layers.get(layer)
            if module is None:
                raise InputError(
                    f"adapter {name!r}: expected linear layers below the head, got {layer!r}"
                )
            sides = (module.in_features, module.out_features)
            if (A.shape[1], B.shape[1]) != sides or len(A) != len(B):
                raise InputError(
                    f"adapter {name!r}: {layer!r}: expected factors [r, {sides[0]}] and "
                    f"[r, {sides[1]}], got {list(A.shape)} and {list(B.shape)}"
                )
            pairs[layer] = (
                torch.tensor(A.T, device=self._device),
                torch.tensor(B, device=self._device),
            )
        self._adapters[name] = pairs

    def probe(self, seed: int) -> Factors:
        """Returns small random factors of every layer, to test a model with."""
        import numpy as np

        random = np.random.default_rng(seed)
        return {
            name: (
                random.normal(0, 0.1, (2, layer.in_features)).astype("f4"),
                random.normal(0, 0.1, (2, layer.out_features)).astype("f4"),
            )
            for name, layer in self._layers.items()
        }

    def remove(self, name: str) -> None:
        """Forgets an adapter.

        Raises:
            KeyError: there is none of this name.
        """
        del self._adapters[name]

    def of(self, name: str | None) -> dict[str, Pair] | None:
        """Returns an adapter as it is now; None for the base.

        Raises:
            KeyError: there is none of this name.
        """
        return None if name is None else self._adapters[name]

    @contextmanager
    def rows(self, adapters: Sequence[dict[str, Pair] | None]) -> Generator[None]:
        """Inside the block the rows of a batch have these adapters."""
        if len(adapters) != len(self._rows) or any(
            new is not old for new, old in zip(adapters, self._rows, strict=True)
        ):
            self._rows = list(adapters)
            self._gathered = dict(self._gather())
        self._active = True
        try:
            yield
        finally:
            self._active = False

    def _gather(self) -> Iterator[tuple[str, Pair]]:
        """Yields A [B, I, R] and B [B, R, O] of each layer that a row changes."""
        used = [adapter for adapter in self._rows if adapter is not None]
        first = self._rows[0] if self._rows else None
        if first is not None and all(adapter is first for adapter in self._rows):
            yield from first.items()  # one product for all rows
            return
        for layer in dict.fromkeys(layer for adapter in used for layer in adapter):
            pairs = [None if adapter is None else adapter.get(layer) for adapter in self._rows]
            some = next(pair for pair in pairs if pair is not None)
            rank = max(pair[0].shape[1] for pair in pairs if pair is not None)
            A = some[0].new_zeros(len(pairs), some[0].shape[0], rank)
            B = some[1].new_zeros(len(pairs), rank, some[1].shape[1])
            for row, pair in enumerate(pairs):
                if pair is not None:
                    A[row, :, : pair[0].shape[1]] = pair[0]
                    B[row, : len(pair[1])] = pair[1]
            yield layer, (A, B)

    def _hook(self, name: str) -> Any:  # noqa: ANN401
        def add_change(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            pair = self._gathered.get(name) if self._active else None
            if pair is None:
                return None
            A, B = pair
            x = inputs[0].float()
            if A.dim() == 3 and x.dim() == 2:  # rows behind one another
                x = x.view(len(A), -1, x.shape[-1])
            change: Tensor = (x @ A) @ B
            return output + change.reshape(output.shape).to(output.dtype)

        return add_change
