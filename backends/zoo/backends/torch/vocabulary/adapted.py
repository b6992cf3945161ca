"""What peft puts around a module: a copy that is trained whole, or rotations of its inputs."""

from typing import Any

from torch import Tensor, nn


def is_wrapper(module: nn.Module) -> bool:
    """Returns whether a module is peft's wrapper around one that is trained whole."""
    return any(name == "modules_to_save" for name, _ in module.named_children())


def in_use(module: Any) -> nn.Module:  # noqa: ANN401
    """Returns the module that a wrapper uses now; any other module is returned as it is."""
    if not is_wrapper(module):
        return module  # type: ignore[no-any-return]
    active = module.active_adapters
    original: nn.Module = module.original_module
    return original if module.disable_adapters or not active else module.modules_to_save[active[0]]


def rotated(hidden: Tensor, layer: Any) -> Tensor:  # noqa: ANN401
    """Returns the inputs of a layer as its base gets them."""
    for name in layer.active_adapters:
        hidden = layer.oft_R[name](hidden)
    return hidden
