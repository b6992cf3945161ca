"""Finds the layers of an adapter in the files of its base.

An adapter names layers as the loaded model does. Files may omit the name of the part below the
head (those of GPT-2 and Bloom), and GPT-2 stores its layers as [in, out].
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.models.adapters import ALL_LINEAR, WEIGHT, refuse_strays, stored_name, targeted
from zoo.models.folder import read_config, stores_in_by_out

_NUMBER = re.compile(r"\.(\d+)\.")


def tensor_of(module: str, base: Weights) -> str:
    """Returns the name that the base's files give a layer's weight, where they have it."""
    return stored_name(module, base.tensors) or module + WEIGHT


def named_as(tuned: Weights, base: Weights) -> Weights:
    """Returns a fine-tune's tensors under the names of its base.

    transformers writes the name of the part below the head that old files leave out.
    """
    shorter = {name: name.partition(".")[2] for name in tuned.tensors if name not in base.tensors}
    names = {name: short for name, short in shorter.items() if short in base.tensors}
    tensors = {names.get(name, name): place for name, place in tuned.tensors.items()}
    return replace(tuned, tensors=tensors) if len(tensors) == len(tuned.tensors) else tuned


def tensors_of(modules: Iterable[str], base: Weights) -> dict[str, str]:
    """Returns the names that the base's files give the weights of layers, by layer.

    Where the files of a model folder call one otherwise, transformers is asked how it renames them.
    """
    names = {module: tensor_of(module, base) for module in modules}
    elsewhere = [module for module, name in names.items() if name not in base.tensors]
    if elsewhere and base.source.is_dir():
        places = {place: name for name, place in _parameters(base).items()}
        names |= {module: places.get(module + WEIGHT, names[module]) for module in elsewhere}
    return names


def modules_of(base: Path) -> dict[str, str]:
    """Returns the loaded model's layer by the file's name of its weight."""
    return {
        name: place.removesuffix(WEIGHT) for name, place in _parameters(open_weights(base)).items()
    }


def _parameters(base: Weights) -> dict[str, str]:
    from zoo.gym.engine import open_engine

    return open_engine().parameter_names(base.source)


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
    if missing and base.source.is_dir():  # experts that are stacked are no layers any more
        missing &= {place.removesuffix(WEIGHT) for place in _parameters(base).values()}
    refuse_strays(str(file), sorted(unexpected), sorted(missing))


def _siblings(held: set[str], base: Weights) -> list[str]:
    """Returns the base's matrices beside those that an adapter changes, in any layer.

    Those elsewhere (an image part, layers that predict further tokens, experts that the loaded
    model stacks) are no modules of the model that the adapter was made on.
    """
    config = read_config(base.source) if base.source.is_dir() else {}
    layers = config.get("text_config", config).get("num_hidden_layers")
    places = {_place(module)[0] for module in held}
    stored = {module: tensor_of(module, base).removesuffix(WEIGHT) for module in held}
    prefixes = {module.removesuffix(name) for module, name in stored.items()}
    found: set[str] = set()
    for name in base.tensors:
        if name.endswith(WEIGHT) and len(base.shape(name)) == 2:
            for module in (prefix + name.removesuffix(WEIGHT) for prefix in prefixes):
                place, layer = _place(module)
                inside = layer >= 0 and (not isinstance(layers, int) or layer < layers)
                if inside and place in places:
                    found.add(module)
    return sorted(found)


def _place(module: str) -> tuple[str, int]:
    """Returns what a module lies in, layers without their numbers, and the number of its layer."""
    number = _NUMBER.search(module)
    return _NUMBER.sub(".*.", module.rpartition(".")[0] + "."), int(number[1]) if number else -1
