"""The trained parameters: names, saving and loading, independent of the optimizer."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import canonical
from zoo.backends.torch.parallel.shares import put, whole
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.torch.loss import LossModule

FILE = "trained.safetensors"
START_FILE = "start.safetensors"
"""The frozen values of the start, for kinds of training that keep them."""


def trained_parameters(module: "LossModule") -> dict[str, nn.Parameter]:
    """Returns the trained parameters of a model and its value head, by canonical name."""
    head = module.value_head
    named = [
        *module.model.named_parameters(),
        *((f"value_head.{name}", p) for name, p in (head.named_parameters() if head else ())),
    ]
    return {canonical(name): p for name, p in named if p.requires_grad}


def copies(
    parameters: Mapping[str, nn.Parameter],
) -> "Iterator[tuple[str, NDArray[np.float32]]]":
    """Yields each value as a float32 copy on the host. Collective if they are divided."""
    for name, parameter in parameters.items():
        yield name, whole(parameter).float().cpu().numpy().copy()


def gradients(
    parameters: Mapping[str, nn.Parameter],
) -> "Iterator[tuple[str, NDArray[np.float32]]]":
    """Yields each accumulated gradient as a float32 copy on the host, zeros if there is none."""
    for name, parameter in parameters.items():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        yield name, whole(gradient).float().cpu().numpy().copy()


def send_gradients(
    parameters: Mapping[str, nn.Parameter],
    receive: "Callable[[str, NDArray[np.float32]], None]",
) -> None:
    """Passes on each gradient, on the host, as soon as a backward pass has it, and frees it."""

    def sender(name: str) -> Callable[[Tensor], None]:
        def send(parameter: Tensor) -> None:
            gradient, parameter.grad = parameter.grad, None
            assert gradient is not None
            receive(name, gradient.float().cpu().numpy())

        return send

    for name, parameter in parameters.items():
        hooked: Any = parameter  # torch's function has no types
        hooked.register_post_accumulate_grad_hook(sender(name))


def save(parameters: Mapping[str, Tensor], folder: Path, name: str = FILE) -> None:
    """Writes the values as safetensors."""
    from safetensors.torch import save_file

    save_file({key: p.detach().cpu().contiguous() for key, p in parameters.items()}, folder / name)


def load(parameters: Mapping[str, nn.Parameter], folder: Path, name: str = FILE) -> None:
    """Restores what `save` wrote, bit for bit.

    Raises:
        InputError: the names or shapes are not those of `parameters`.
    """
    from safetensors.torch import load_file

    assign(parameters, load_file(folder / name), str(folder / name))


def assign(
    parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor], source: str
) -> None:
    """Copies `tensors` into the parameters of the same names.

    Raises:
        InputError: the names or shapes are not those of `parameters`; the message has `source`.
    """
    if tensors.keys() != parameters.keys():
        odd = sorted(tensors.keys() ^ parameters.keys())[0]
        raise InputError(
            f"{source}: {odd}: in only one of the checkpoint and this policy",
            code="backends.other_checkpoint",
        )
    for name, parameter in parameters.items():
        expected, got = tuple(parameter.shape), tuple(tensors[name].shape)
        if expected != got:
            raise InputError(
                f"{source}: {name}: shape mismatch: expected {expected}, got {got}",
                code="backends.other_checkpoint",
            )
        put(parameter, tensors[name])
