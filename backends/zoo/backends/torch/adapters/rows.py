"""Each row of a batch with an adapter of its own, on one base.

Legend: B rows, T positions, I inputs, O outputs, R rank, V vocabulary, D hidden size.

Low-rank: y = W x + B_row A_row x. The factors of the rows are gathered when rows come or go, not
for each token; ranks below the largest are padded with zeros. Dense: signs of matrices
(`row_signs`), vectors added to norms (`row_norms`) and biases.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from zoo.backends.batching import Adapter, Factors, Signs
from zoo.backends.torch.adapters.placement import linear_layers
from zoo.backends.torch.adapters.row_norms import RowNorm, differs, is_norm
from zoo.backends.torch.adapters.row_parts import called_by_row
from zoo.backends.torch.adapters.row_signs import (
    Places,
    RowSigns,
    add_embeddings,
    add_products,
    places_of,
)
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float32]

Pair = tuple[Tensor, Tensor]


@dataclass(eq=False)
class RowAdapter:
    """An adapter on the device of a model.

    Attributes:
        pairs: A [I, R] and B [R, O] by layer.
        signs: by layer.
        vectors: what is added to a parameter, by its name within its module, by module.
    """

    pairs: dict[str, Pair] = field(default_factory=dict[str, Pair])
    signs: dict[str, RowSigns] = field(default_factory=dict[str, RowSigns])
    vectors: dict[str, dict[str, Tensor]] = field(default_factory=dict[str, dict[str, Tensor]])


class RowAdapters:
    """The adapters of a model, and the one that each row uses.

    Args:
        model: a model without an adapter; its modules get hooks when an adapter changes them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._modules: dict[str, Any] = dict(model.named_modules())
        head: Any = model.get_output_embeddings()  # type: ignore[operator]
        embedding: Any = model.get_input_embeddings()  # type: ignore[operator]
        # the head may be computed without its module
        self._layers = {name: layer for name, layer in linear_layers(model) if layer is not head}
        names = {module: name for name, module in self._modules.items()}
        self._embedding, self._embedding_name = embedding, names.get(embedding, "")
        self._is_tied = head.weight is embedding.weight
        self._head_name = self._embedding_name if self._is_tied else names.get(head, "")
        self._head_size = int(head.weight.shape[0])
        self._device = next(model.parameters()).device
        self._adapters: dict[str, RowAdapter] = {}
        self._rows: list[RowAdapter | None] = []
        self._gathered: dict[str, Pair] = {}
        self._signs: dict[str, list[tuple[Places, RowSigns]]] = {}
        self._biases: dict[str, Tensor] = {}
        self._norms: dict[str, RowNorm] = {}
        self._used_norms: list[RowNorm] = []
        self._active = False
        self._hooks: dict[str, Any] = {}
        self._called: frozenset[str] | None = None  # found out when an adapter needs it

    def close(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks.values():
            hook.remove()
        for norm in self._norms.values():
            norm.close()

    def add(self, name: str, adapter: Adapter) -> None:
        """Keeps an adapter; rows that use an earlier one of this name go on with that.

        Raises:
            InputError: a layer or parameter is missing, is of a kind that rows cannot have of their
                own, or has another shape.
        """
        new = RowAdapter()
        for target, change in adapter.items():
            if isinstance(change, tuple):
                new.pairs[target] = self._pair(name, target, change)
            elif isinstance(change, Signs):
                new.signs[target] = self._row_signs(name, target, change)
            else:
                module, _, parameter = target.rpartition(".")
                vector = self._vector(name, target, change)
                new.vectors.setdefault(module, {})[parameter] = vector
        biases = [target for target in new.vectors if target in self._layers]
        for target in (*new.pairs, *new.signs, *biases):
            self._add_hook(target)
        self._adapters[name] = new

    def _add_hook(self, target: str) -> None:
        """Makes a linear layer or the embedding compute with the changes of rows, from now on."""
        if target in self._hooks:
            return
        if target == self._embedding_name:
            self._hooks[target] = self._embedding.register_forward_hook(self._add_embeddings)
        elif target in self._layers:  # else it is the head
            self._hooks[target] = self._layers[target].register_forward_hook(self._hook(target))

    def _pair(self, name: str, layer: str, factors: "tuple[Array, Array]") -> Pair:
        A, B = factors
        module = self._layers.get(layer)
        if module is None:
            raise InputError(
                f"adapter {name!r}: expected linear layers below the head, got {layer!r}",
                code="torch.not_for_rows",
            )
        sides = (module.in_features, module.out_features)
        if (A.shape[1], B.shape[1]) != sides or len(A) != len(B):
            raise InputError(
                f"adapter {name!r}: {layer!r}: expected factors [r, {sides[0]}] and "
                f"[r, {sides[1]}], got {list(A.shape)} and {list(B.shape)}",
                code="backends.adapter_does_not_fit",
            )
        return torch.tensor(A.T, device=self._device), torch.tensor(B, device=self._device)

    def _row_signs(self, name: str, layer: str, signs: Signs) -> RowSigns:
        outputs, inputs = self._matrix(name, layer)
        scales = {"row": outputs, "column": inputs, "matrix": 1}[signs.scale]
        planes = [signs.bits] if signs.mask is None else [signs.bits, signs.mask]
        shapes = [*(list(plane.shape) for plane in planes), list(signs.scales.shape)]
        expected = [[outputs, -(-inputs // 8)]] * len(planes) + [[scales]]
        if shapes != expected:
            raise InputError(
                f"adapter {name!r}: {layer!r}: expected bits and scales {expected}, got {shapes}",
                code="backends.adapter_does_not_fit",
            )
        return RowSigns(signs, self._device)

    def _is_called(self, target: str) -> bool:
        if self._called is None:
            self._called = called_by_row(self._model)
        return target in self._called

    def _matrix(self, name: str, layer: str) -> tuple[int, int]:
        """Returns the shape of a layer's weight that signs can be added to."""
        if layer in self._layers and self._is_called(layer):
            return self._layers[layer].out_features, self._layers[layer].in_features
        if layer == self._head_name and not self._is_tied:
            return self._head_size, int(self._modules[layer].weight.shape[1])
        # subclasses scale the rows, or choose among several matrices
        is_plain = type(self._embedding).forward is nn.Embedding.forward
        if layer == self._embedding_name and is_plain and self._is_called(layer):
            rows, size = self._embedding.weight.shape
            if self._embedding.max_norm is None:
                return int(rows), int(size)
        raise InputError(
            f"adapter {name!r}: expected signs of linear layers and plain embeddings, "
            f"got {layer!r}",
            code="torch.not_for_rows",
        )

    def _vector(self, name: str, parameter: str, change: "Array") -> Tensor:
        target, _, own = parameter.rpartition(".")
        module = self._modules.get(target)
        parameters = {} if module is None else dict(module.named_parameters(recurse=False))
        value = parameters.get(own)
        is_bias = target in self._layers and own == "bias"
        fits = module is not None and (is_bias or self._has_norm(target, module))
        if value is None or not fits or not self._is_called(target):
            raise InputError(
                f"adapter {name!r}: expected vectors of norms and of biases below the head, got "
                f"{parameter!r}",
                code="torch.not_for_rows",
            )
        if change.shape != tuple(value.shape):
            raise InputError(
                f"adapter {name!r}: {parameter!r}: expected {list(value.shape)}, got "
                f"{list(change.shape)}",
                code="backends.adapter_does_not_fit",
            )
        return torch.tensor(change, device=self._device)

    def _has_norm(self, target: str, module: nn.Module) -> bool:
        """Returns whether rows can have a module as a norm of their own; it gets hooks then."""
        if target not in self._norms:
            if not is_norm(module) or differs(module):
                return False
            self._norms[target] = RowNorm(module)
        return True

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

    def of(self, name: str | None) -> RowAdapter | None:
        """Returns an adapter as it is now; None for the base.

        Raises:
            KeyError: there is none of this name.
        """
        return None if name is None else self._adapters[name]

    @contextmanager
    def rows(self, adapters: Sequence[RowAdapter | None]) -> Generator[None]:
        """Inside the block the rows of a batch have these adapters."""
        if len(adapters) != len(self._rows) or any(
            new is not old for new, old in zip(adapters, self._rows, strict=True)
        ):
            self._rows = list(adapters)
            self._gathered = dict(self._gather())
            self._signs = gathered_signs(self._rows)
            self._gather_vectors()
        self._activate(active=True)
        try:
            yield
        finally:
            self._activate(active=False)

    def _activate(self, *, active: bool) -> None:
        self._active = active
        for norm in self._used_norms:
            norm.is_active = active

    def _gather(self) -> Iterator[tuple[str, Pair]]:
        """Yields A [B, I, R] and B [B, R, O] of each layer that a row changes."""
        used = [adapter.pairs for adapter in self._rows if adapter is not None]
        first = self._rows[0] if self._rows else None
        if first is not None and all(adapter is first for adapter in self._rows):
            yield from first.pairs.items()  # one product for all rows
            return
        for layer in dict.fromkeys(layer for pairs in used for layer in pairs):
            pairs = [None if row is None else row.pairs.get(layer) for row in self._rows]
            some = next(pair for pair in pairs if pair is not None)
            rank = max(pair[0].shape[1] for pair in pairs if pair is not None)
            A = some[0].new_zeros(len(pairs), some[0].shape[0], rank)
            B = some[1].new_zeros(len(pairs), rank, some[1].shape[1])
            for row, pair in enumerate(pairs):
                if pair is not None:
                    A[row, :, : pair[0].shape[1]] = pair[0]
                    B[row, : len(pair[1])] = pair[1]
            yield layer, (A, B)

    def _gather_vectors(self) -> None:
        """Gathers biases [B, O] of linear layers, and sets the norms of the rows."""
        vectors = [{} if row is None else row.vectors for row in self._rows]
        self._biases, self._used_norms = {}, []
        for target in dict.fromkeys(target for row in vectors for target in row):
            changes = [row.get(target, {}) for row in vectors]
            if target in self._norms:
                self._norms[target].set(changes)
                self._used_norms.append(self._norms[target])
                continue
            size = self._layers[target].out_features
            none = torch.zeros(size, device=self._device)
            self._biases[target] = torch.stack([change.get("bias", none) for change in changes])

    def head_change(
        self, adapters: Sequence[RowAdapter | None], hidden_BTD: Tensor
    ) -> Tensor | None:
        """Returns what rows add to the product with the output layer, float32 `[B, T, V]`.

        Args:
            adapters: those of the rows.
            hidden_BTD: what the output layer gets.

        Returns:
            None if no row changes it.
        """
        signs = gathered_signs(adapters).get(self._head_name)
        if not signs:
            return None
        zeros_BTV = hidden_BTD.new_zeros(
            *hidden_BTD.shape[:2], self._head_size, dtype=torch.float32
        )
        return add_products(hidden_BTD, zeros_BTV, len(adapters), signs)

    def changes_head(self, adapters: Sequence[RowAdapter | None]) -> bool:
        """Returns whether some row changes the output layer."""
        return any(row is not None and self._head_name in row.signs for row in adapters)

    def _add_embeddings(
        self, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> Tensor | None:
        signs = self._signs.get(self._embedding_name) if self._active else None
        return add_embeddings(inputs[0], output, signs) if signs else None

    def _hook(self, name: str) -> Any:  # noqa: ANN401
        def add_change(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            if not self._active:
                return None
            pair, signs = self._gathered.get(name), self._signs.get(name)
            changed = None if pair is None else _add_low_rank(pair, inputs[0], output)
            if signs is not None:
                y = output if changed is None else changed
                changed = add_products(inputs[0], y, len(self._rows), signs)
            if (bias_BO := self._biases.get(name)) is not None:
                y = output if changed is None else changed
                y_BTO = y.view(len(bias_BO), -1, y.shape[-1]) + bias_BO[:, None].to(y.dtype)
                changed = y_BTO.view(y.shape)
            return changed

        return add_change


def _add_low_rank(pair: Pair, x: Tensor, output: Tensor) -> Tensor:
    A, B = pair
    x = x.float()
    if A.dim() == 3 and x.dim() == 2:  # rows behind one another
        x = x.view(len(A), -1, x.shape[-1])
    change: Tensor = (x @ A) @ B
    return output + change.reshape(output.shape).to(output.dtype)


def gathered_signs(
    rows: Sequence[RowAdapter | None],
) -> dict[str, list[tuple[Places, RowSigns]]]:
    """Returns the signs of each layer that a row changes; rows of one adapter are together."""
    by_adapter: dict[RowAdapter, list[int]] = {}
    for row, adapter in enumerate(rows):
        if adapter is not None and adapter.signs:
            by_adapter.setdefault(adapter, []).append(row)
    gathered: dict[str, list[tuple[Places, RowSigns]]] = {}
    for adapter, places in by_adapter.items():
        for layer, signs in adapter.signs.items():
            gathered.setdefault(layer, []).append((places_of(places), signs))
    return gathered
