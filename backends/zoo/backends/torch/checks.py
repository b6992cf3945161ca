"""What the torch engine refuses of a model and settings, found without reading a weight.

Loading checks the same again, and what only weights show.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.backends.base import FreezeSpec, LoadSpec
from zoo.backends.libraries.quantization import check_device
from zoo.backends.model_folder import read_config
from zoo.backends.optimizer_spec import IN_LIBRARY, PROJECTED
from zoo.backends.spec import LoraSpec, NewAdapter, OftSpec
from zoo.backends.torch.adapters.configs import ALL, peft_config, target_key
from zoo.backends.torch.adapters.oft import check_blocks
from zoo.backends.torch.adapters.placement import adapted_layers, linear_layers, require_layers
from zoo.backends.torch.adapters.start import check_rank
from zoo.backends.torch.adapters.whole import find_whole
from zoo.backends.torch.layers.freezing import freeze_all_but
from zoo.backends.torch.layers.rope import scale_rope
from zoo.backends.torch.layers.router import chosen_experts
from zoo.backends.torch.optimizers.blocks import block_of
from zoo.backends.torch.optimizers.one_block import check_first
from zoo.backends.torch.optimizers.projection import check_projected
from zoo.backends.torch.quantized.already import (
    check_quantized,
    check_unchanged,
    quantized_by,
)
from zoo.backends.torch.quantized.base import check_codes, kept_layers
from zoo.backends.torch.quantized.library import require_library
from zoo.backends.torch.quiet import quiet
from zoo.backends.torch.settings import refused_on_device
from zoo.core.errors import GymError, InputError
from zoo.models.refusals import refusals


def check_settings(device: str, spec: LoadSpec) -> None:
    """Refuses settings that have an effect on another device alone.

    Raises:
        InputError: one is given.
    """
    for fault in _of_device(device, spec):
        raise fault


def faults(folder: Path, device: str, spec: LoadSpec) -> Iterator[GymError]:
    """Yields why a model cannot be loaded as `spec` says, each setting once.

    Args:
        folder: the model's folder.
        device: the device that it would be loaded on.
        spec: the settings.
    """
    yield from _of_device(device, spec)
    if spec.train is not None and spec.optimizer.name in IN_LIBRARY:
        yield from _raised(lambda: check_device(spec.optimizer.name, device))
    unreadable = list(_raised(lambda: read_config(folder)))
    yield from unreadable
    if unreadable:
        return
    yield from _of_codes(folder, spec)
    rope = spec.rope
    if rope is not None:
        yield from _raised(lambda: scale_rope(folder, read_config(folder), rope))
    if spec.train is not None:
        yield from _of_modules(folder, spec)


def _raised(check: Callable[[], object]) -> Iterator[GymError]:
    """Yields the error of a check, if it raises one."""
    try:
        check()
    except GymError as error:
        yield error


def _of_device(device: str, spec: LoadSpec) -> Iterator[InputError]:
    for text, hint in refused_on_device(device, spec):
        yield InputError(text, hint=hint, code="backends.setting_not_supported")


def _of_codes(folder: Path, spec: LoadSpec) -> Iterator[GymError]:
    """Yields what is wrong with codes, in the base's files or to be made."""
    method, quantization = quantized_by(read_config(folder)), spec.quantization
    if method is not None:
        yield from _raised(lambda: check_unchanged(folder, spec))
        yield from _raised(lambda: check_quantized(folder, method, quantization))
    elif quantization is not None:
        unknown = list(_raised(lambda: check_codes(quantization)))
        yield from unknown or _raised(require_library)
        if not unknown:
            yield from _raised(lambda: kept_layers(folder, read_config(folder)))


def _of_modules(folder: Path, spec: LoadSpec) -> Iterator[GymError]:
    """Yields the names of layers and modules that the model lacks."""
    train = spec.train
    named = isinstance(train, NewAdapter) and (list(train.targets) != [ALL] or train.whole)
    projects = spec.in_place and spec.optimizer.name in PROJECTED
    turns = spec.in_place and spec.optimizer.name == "badam"
    sized = isinstance(train, OftSpec) or (isinstance(train, LoraSpec) and train.init != "default")
    freezes = isinstance(train, FreezeSpec)
    if not any((named, projects, turns, sized, freezes, spec.router_loss)):
        return
    try:
        model = _without_weights(folder)
    except GymError as error:
        yield error
        return
    if isinstance(train, FreezeSpec):
        yield from _raised(lambda: freeze_all_but(model, train))
    elif isinstance(train, LoraSpec | OftSpec):
        wrong = list(_raised(lambda: _check_whole(model, train)))
        wrong += _raised(lambda: _check_targets(model, train))
        yield from wrong or _raised(lambda: _check_sizes(model, train))
    if spec.router_loss:
        yield from _raised(lambda: chosen_experts(model))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if projects:
        yield from _raised(lambda: check_projected(trained, spec.optimizer))
    if turns:
        blocks = {block_of(name) for name in trained} - {None}
        yield from _raised(lambda: check_first(len(blocks), spec.optimizer.blocks))


def _check_targets(model: nn.Module, spec: NewAdapter) -> None:
    endings = ", ".join(sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)}))
    if list(spec.targets) != [ALL]:
        require_layers(model, list(spec.targets), endings, target_key(spec))


def _check_whole(model: nn.Module, spec: NewAdapter) -> None:
    if isinstance(spec, OftSpec):
        peft_config(model, spec)
    else:  # without peft, whose import takes seconds
        find_whole(model, spec.whole)


def _check_sizes(model: nn.Module, spec: NewAdapter) -> None:
    """Refuses what the sizes of the layers do not allow."""
    layers = adapted_layers(model, list(spec.targets), find_whole(model, spec.whole))
    if isinstance(spec, OftSpec):
        for name, layer in layers:
            check_blocks(name, layer.in_features, spec)
    elif spec.init != "default":
        check_rank([layer for _, layer in layers], spec.rank, f"{spec.init}_init")


def _without_weights(folder: Path) -> nn.Module:
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    config = read_config(folder)
    with refusals(f"{folder}: this model cannot be built"), quiet(), torch.device("meta"):
        model: nn.Module = auto.from_config(config)
    return model
