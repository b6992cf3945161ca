"""Where the layers of an adapter lie in the files of its base.

An adapter names layers as the loaded model does. Files may leave out the name of the part below the
head (those of GPT-2 and Bloom), and GPT-2 stores its layers as [in, out].
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zoo.gym.delta.weights import Weights, read_config
from zoo.models.adapters import ALL_LINEAR, refuse_strays, targeted
from zoo.models.folder import stores_in_by_out

_WEIGHT = ".weight"
_NUMBER = re.compile(r"\.(\d+)\.")


def tensor_of(module: str, base: Weights) -> str:
    """Returns the name that the base's files give a layer's weight, where they have it."""
    name = module + _WEIGHT
    _, _, short = name.partition(".")
    return short if name not in base.tensors and short in base.tensors else name


def transposed(name: str, base: Weights) -> bool:
    """Says whether the base stores this layer's weight as [in, out]."""
    config = read_config(base.source) if base.source.is_dir() else {}
    return stores_in_by_out(config) and not name.startswith("lm_head.")


def check_places(
    config: Mapping[str, Any], modules: Iterable[str], base: Weights, file: Path, told: Path
) -> None:
    """Makes sure that an adapter holds the layers that its config is for, and no others.

    Args:
        config: the adapter's settings.
        modules: the layers whose factors it holds.
        base: the base that it belongs to.
        file: the adapter's file, for refusals.
        told: the config's file, for refusals.

    Raises:
        InputError: it does not: peft would leave some out, or make some up.
    """
    held = set(modules)
    unexpected = held - targeted(config, sorted(held), str(told))
    candidates = _siblings(held, base) if config.get("target_modules") != ALL_LINEAR else []
    missing = targeted(config, candidates, str(told)) - held
    refuse_strays(str(file), sorted(unexpected), sorted(missing))


def _siblings(held: set[str], base: Weights) -> list[str]:
    """Returns the base's matrices in the layers that an adapter touches.

    Those elsewhere (an image part, layers that predict further tokens) belong to no model that the
    adapter was made on; the same names in other layers do.
    """
    config = read_config(base.source) if base.source.is_dir() else {}
    layers = config.get("text_config", config).get("num_hidden_layers")
    stacks = {_stack(module)[0] for module in held}
    found: list[str] = []
    names = {tensor_of(module, base): module for module in held}
    prefixes = {module.removesuffix(name.removesuffix(_WEIGHT)) for name, module in names.items()}
    for name in base.tensors:
        if not name.endswith(_WEIGHT) or len(base.shape(name)) != 2:
            continue
        for prefix in prefixes:
            module = prefix + name.removesuffix(_WEIGHT)
            stack, layer = _stack(module)
            inside = not isinstance(layers, int) or layer < layers
            if layer >= 0 and inside and stack in stacks:
                found.append(module)
    return sorted(set(found))


def _stack(module: str) -> tuple[str, int]:
    """Returns the name of the list of layers that a module lies in, and its place there."""
    number = _NUMBER.search(f".{module}.")
    if number is None:
        return module, -1
    return f".{module}"[: number.start()], int(number[1])
