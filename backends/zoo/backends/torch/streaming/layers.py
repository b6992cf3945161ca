"""Releases the weights of each layer when the next one is computed.

Before a layer is computed, the memory of those computed before it is released, and the next one is
prefetched. With recomputed activations the same happens in the backward pass, in which the layers
come in the opposite order: each is computed again and then differentiated. So at any time one layer
is in memory, another one is being read, and the embedding while the output layer uses it.
"""

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from zoo.backends.torch.probe import find_backbone
from zoo.backends.torch.streaming.mapped import MappedFiles, Range
from zoo.core.errors import InputError

LEAST_MAPPED = 0.9
"""The share of a model's bytes that must stay in its files."""

_files: WeakKeyDictionary[nn.Module, MappedFiles] = WeakKeyDictionary()
"""The files of each model that is streamed."""


def stream_layers(folder: Path, model: nn.Module, mapped: MappedFiles) -> None:
    """Makes a model release the weights that it is not using.

    Args:
        folder: its folder, for messages.
        model: a model with parameters among the mapped tensors, on the CPU.
        mapped: the mapped files.

    Raises:
        InputError: too much of the model is not in its files as it is in memory.
    """
    _require_mapped(folder, model, mapped)
    layers = find_layers(model)
    inside = {id(parameter) for layer in layers for parameter in layer.parameters()}
    outside = mapped.ranges(p for p in model.parameters() if id(p) not in inside)
    _Stream(outside, [mapped.ranges(layer.parameters()) for layer in layers]).attach(layers)
    _files[model] = mapped


def release(model: nn.Module, weight: Tensor) -> None:
    """Releases a weight that was read outside of a pass; without effect on one in memory."""
    for part in _files[model].ranges([weight]) if model in _files else ():
        part.release()


def find_layers(model: nn.Module) -> list[nn.Module]:
    """Returns the layers of the backbone: the list of modules with the most parameters."""
    parts = find_backbone(model).modules()
    lists = [list(part) for part in parts if isinstance(part, nn.ModuleList)]
    return max(lists, key=_size, default=[])


def _size(modules: list[nn.Module]) -> int:
    return sum(parameter.numel() for part in modules for parameter in part.parameters())


def _require_mapped(folder: Path, model: nn.Module, mapped: MappedFiles) -> None:
    sizes = [(p.nbytes, mapped.contains(p)) for p in model.parameters()]
    total = sum(size for size, _ in sizes)
    held = str(max(model.parameters(), key=lambda p: p.nbytes).dtype).removeprefix("torch.")
    share = sum(size for size, is_mapped in sizes if is_mapped) / max(1, total)
    if share < LEAST_MAPPED:
        raise InputError(
            f"stream_layers: {folder}: expected weights that are used as they are stored, got "
            f"{share:.0%} of them: they are loaded as {held}",
            hint="give the type of the files as dtype: bf16 or f32; models that join or split "
            "tensors when they are loaded cannot be streamed",
            code="torch.weights_converted",
        )


class _Stream:
    """What is in memory: places of layers, or -1 for the weights outside of them."""

    def __init__(self, outside: list[Range], layers: list[list[Range]]) -> None:
        self._ranges = {-1: outside, **dict(enumerate(layers))}
        self._last = len(layers) - 1
        self._used: set[int] = set()
        self._before = -1

    def attach(self, layers: list[nn.Module]) -> None:
        """Notes each use of a layer by its parts: recomputing calls the layer's forward alone."""
        for index, layer in enumerate(layers):
            for part in layer.children():
                part.register_forward_pre_hook(self._hook(index))

    def _hook(self, index: int) -> Any:  # noqa: ANN401 - torch has no type for it
        def use(_module: nn.Module, _inputs: object) -> None:
            self.use(index)

        return use

    def use(self, index: int) -> None:
        """Releases what is in memory but for a layer, and prefetches the one after it."""
        if index == self._before:
            self._release(-1)  # the output layer stands between its two uses of the last layer
            return
        forward = index > self._before or index == 0
        following = index + (1 if forward else -1)
        for used in (self._used | {-1}) - {index}:
            self._release(used)
        self._used, self._before = {index}, index
        if 0 <= following <= self._last:
            for part in self._ranges[following]:
                part.prefetch()
            self._used.add(following)

    def _release(self, index: int) -> None:
        for part in self._ranges[index]:
            part.release()
