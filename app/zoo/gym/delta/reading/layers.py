"""Finds the layers of an adapter in the files of its base.

An adapter uses the layer names of the loaded model. Files may omit the prefix of the backbone
(GPT-2, Bloom), and GPT-2 stores its layers as [in, out].
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
    """Returns the name of a layer's weight in the base's files, or its own if they lack it."""
    return stored_name(module, base.tensors) or module + WEIGHT


def named_as(tuned: Weights, base: Weights) -> Weights:
    """Returns a fine-tune's tensors under the names of its base.

    transformers writes the backbone's prefix, which old files omit.
    """
    shorter = {name: name.partition(".")[2] for name in tuned.tensors if name not in base.tensors}
    names = {name: short for name, short in shorter.items() if short in base.tensors}
    tensors = {names.get(name, name): tensor for name, tensor in tuned.tensors.items()}
    return replace(tuned, tensors=tensors) if len(tensors) == len(tuned.tensors) else tuned


def tensors_of(modules: Iterable[str], base: Weights) -> dict[str, str]:
    """Returns the names of layers' weights in the base's files, by layer.

    If the files use another name, the renaming rules of transformers are applied.
    """
    names = {module: tensor_of(module, base) for module in modules}
    elsewhere = [module for module, name in names.items() if name not in base.tensors]
    if elsewhere and base.source.is_dir():
        places = {parameter: name for name, parameter in _parameters(base).items()}
        names |= {module: places.get(module + WEIGHT, names[module]) for module in elsewhere}
    return names


def modules_of(base: Path) -> dict[str, str]:
    """Returns the loaded model's layers by the names of their weights in the files."""
    return {
        name: parameter.removesuffix(WEIGHT)
        for name, parameter in _parameters(open_weights(base)).items()
    }


def _parameters(base: Weights) -> dict[str, str]:
    from zoo.gym.engine import engine_for

    return engine_for(base.source).parameter_names(base.source)


def transposed(name: str, base: Weights) -> bool:
    """Returns whether the base stores this layer's weight as [in, out]."""
    config = read_config(base.source) if base.source.is_dir() else {}
    return stores_in_by_out(config) and not name.startswith("lm_head.")


def check_places(
    config: Mapping[str, Any], modules: Iterable[str], base: Weights, file: Path, config_file: Path
) -> None:
    """Checks that an adapter contains exactly the layers that its config covers.

    Args:
        config: the adapter's settings.
        modules: the layers whose factors it contains.
        base: the base that it belongs to.
        file: the adapter's file, for error messages.
        config_file: the config's file, for error messages.

    Raises:
        InputError: it does not, so peft would omit some or initialise some at random.
    """
    present = set(modules)
    unexpected = present - targeted(config, sorted(present), str(config_file))
    candidates = _siblings(present, base) if config.get("target_modules") != ALL_LINEAR else []
    missing = targeted(config, candidates, str(config_file)) - present
    if missing and base.source.is_dir():  # stacked experts are no longer layers
        missing &= {parameter.removesuffix(WEIGHT) for parameter in _parameters(base).values()}
    refuse_strays(str(file), sorted(unexpected), sorted(missing))


def _siblings(present: set[str], base: Weights) -> list[str]:
    """Returns the base's matrices in the same modules as those of an adapter, in any layer.

    Other matrices (of an image encoder, layers that predict further tokens, experts that the
    loaded model stacks) are not modules of the model that the adapter was made for.
    """
    config = read_config(base.source) if base.source.is_dir() else {}
    layers = config.get("text_config", config).get("num_hidden_layers")
    places = {_place(module)[0] for module in present}
    stored = {module: tensor_of(module, base).removesuffix(WEIGHT) for module in present}
    prefixes = {module.removesuffix(name) for module, name in stored.items()}
    siblings: set[str] = set()
    for name in base.tensors:
        if name.endswith(WEIGHT) and len(base.shape(name)) == 2:
            for module in (prefix + name.removesuffix(WEIGHT) for prefix in prefixes):
                parent, layer = _place(module)
                inside = layer >= 0 and (not isinstance(layers, int) or layer < layers)
                if inside and parent in places:
                    siblings.add(module)
    return sorted(siblings)


def _place(module: str) -> tuple[str, int]:
    """Returns the parent of a module, without the layer number, and the layer number."""
    number = _NUMBER.search(module)
    return _NUMBER.sub(".*.", module.rpartition(".")[0] + "."), int(number[1]) if number else -1
