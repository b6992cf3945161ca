"""What a run trains, by name: its adapter, modules beside it, and matrices that are projected.

The shapes are those in the headers of the model's files.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.core import read_header
from zoo.gym.config.train import TrainConfig
from zoo.gym.paths import given_path
from zoo.gym.train.loading import freeze_spec, lora_spec, oft_spec, projection_spec
from zoo.models.adapters import ALL_LINEAR, CONFIG_FILE, WEIGHTS_FILE, read_adapter_config
from zoo.models.folder import read_config
from zoo.models.stored_weights import WEIGHT, stored_weights
from zoo.models.tied_head import HEAD

if TYPE_CHECKING:
    from zoo.backends.memory import Adapted
    from zoo.backends.optimizer_memory import Matrix

FIRST, SECOND = ".lora_A.", ".lora_B."
"""What the names of the factors in an adapter's file have."""


@dataclass(frozen=True)
class Adapter:
    """An adapter, as far as its memory depends on it.

    Attributes:
        rank: of LoRA.
        dora: whether it has magnitudes.
        dropout: whether its inputs are dropped.
        oft: of OFT the number of blocks in a layer and their size, one of them 0; else None.
        whole: names of modules that are trained whole beside it.
    """

    rank: int
    dora: bool = False
    dropout: bool = False
    oft: tuple[int, int] | None = None
    whole: tuple[str, ...] = ()


def adapter_of(config: TrainConfig) -> Adapter:
    """Returns the adapter that is trained: a new one, or the one that is continued.

    Without an adapter it is the one of the settings, which nothing reads.
    """
    if config.adapter_name_or_path is not None:
        file = given_path(config.adapter_name_or_path) / CONFIG_FILE
        return _stored(read_adapter_config(file), config.lora_rank)
    if config.finetuning_type == "oft":
        turns = oft_spec(config)
        return Adapter(
            config.lora_rank,
            oft=(turns.rank, turns.block_size),
            whole=turns.whole,
        )
    spec = lora_spec(config)
    return Adapter(spec.rank, spec.dora, spec.dropout > 0, None, spec.whole)


def _stored(settings: Mapping[str, Any], rank: int) -> Adapter:
    """Returns what an adapter's config says; `rank` is for one without a rank."""
    stored_rank, size = settings.get("r"), settings.get("oft_block_size")
    oft = None
    if settings["peft_type"] == "OFT" and isinstance(size, int) and size > 0:
        oft = (0, size)
    return Adapter(
        stored_rank if isinstance(stored_rank, int) and stored_rank > 0 else rank,
        dora=settings.get("use_dora") is True,
        dropout=bool(settings.get("lora_dropout")),
        oft=oft,
        whole=tuple(settings.get("modules_to_save") or ()),
    )


def whole_modules(folder: Path, names: Sequence[str]) -> tuple["Matrix", ...]:
    """Returns the weights in modules whose names end with one of `names`, a tied table once."""
    from zoo.backends.optimizer_memory import Matrix

    return tuple(
        Matrix(shape[0] if shape else 1, math.prod(shape[1:]), 1, linear=block_of(name) is not None)
        for name, shape in shapes_of(folder, names).items()
        if any(is_in(each, name) for each in names)
    )


def adapted_layers(config: TrainConfig, folder: Path) -> "tuple[Adapted, ...] | None":
    """Returns the layers with a LoRA adapter, if they are named or continued; None for all.

    Of a continued adapter the factors in its file count, whatever ranks and layers its config
    gives by pattern.
    """
    if config.adapter_name_or_path is not None:
        return _factors_in(given_path(config.adapter_name_or_path) / WEIGHTS_FILE)
    if not config.trains_adapter or config.finetuning_type == "oft":
        return None
    spec = lora_spec(config)
    if spec.targets == (ALL_LINEAR,):
        return None
    from zoo.backends.memory import Adapted

    return tuple(
        Adapted(shape[0], shape[1], spec.rank)
        for name, shape in shapes_of(folder, spec.targets).items()
        if len(shape) == 2 and any(f".{name}".endswith(f".{each}.weight") for each in spec.targets)
    )


def rotated_layers(config: TrainConfig, folder: Path) -> tuple[int, ...] | None:
    """Returns the inputs of the layers that OFT rotates, if they are named; None for all."""
    if config.finetuning_type != "oft" or oft_spec(config).targets == (ALL_LINEAR,):
        return None
    targets = oft_spec(config).targets
    return tuple(
        shape[1]
        for name, shape in shapes_of(folder, targets).items()
        if len(shape) == 2 and any(f".{name}".endswith(f".{each}.weight") for each in targets)
    )


def _factors_in(file: Path) -> "tuple[Adapted, ...] | None":
    """Returns the layers of an adapter's file; None if it has no factors of LoRA."""
    from zoo.backends.memory import Adapted

    shapes = {name: info.shape for name, info in read_header(file).tensors.items()}
    pairs = [
        (shapes.get(name.replace(FIRST, SECOND)), shape)
        for name, shape in shapes.items()
        if FIRST in name and len(shape) == 2
    ]
    factors = [Adapted(b[0], a[1], a[0]) for b, a in pairs if b is not None and len(b) == 2]
    return tuple(factors) or None


def trained_in_place(config: TrainConfig, folder: Path, layers: int) -> "tuple[Matrix, ...] | None":
    """Returns the weights of the base that freeze trains by name; None if it is whole blocks."""
    from zoo.backends.optimizer_memory import Matrix

    if config.finetuning_type != "freeze" or freeze_spec(config).modules == ("all",):
        return None
    return tuple(
        Matrix(shape[0] if shape else 1, math.prod(shape[1:]), 1, linear=block_of(name) is not None)
        for name, shape in _in_place(config, folder, layers).items()
    )


def named_matrices(config: TrainConfig, folder: Path, layers: int) -> tuple["Matrix", ...] | None:
    """Returns the trained matrices that are projected by name; None where it is all or none.

    Only weights of the base are projected, never an adapter's.

    Args:
        config: the run's settings.
        folder: the model's.
        layers: the number of blocks.
    """
    from zoo.backends.optimizer_memory import Matrix

    spec = projection_spec(config)
    if spec is None or spec.targets == (ALL_LINEAR,):
        return None
    return tuple(
        Matrix(shape[0], shape[1], 1, linear=block_of(name) is not None)
        for name, shape in _in_place(config, folder, layers).items()
        if len(shape) == 2 and any(is_in(each, name) for each in spec.targets)
    )


def _in_place(config: TrainConfig, folder: Path, layers: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the base's weights that are trained."""
    if config.finetuning_type != "freeze":
        return shapes_of(folder, ())
    spec = freeze_spec(config)
    start, end = (layers - spec.layers, layers) if spec.layers >= 0 else (0, -spec.layers)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes_of(folder, spec.extra).items():
        block = block_of(name)
        inside = block is not None and start <= block < end
        names = spec.modules if inside else spec.extra if block is None else ()
        if any(each == "all" or is_in(each, name) for each in names):
            shapes[name] = shape
    return shapes


def matrices_in_layers(folder: Path) -> list[str]:
    """Returns the names of the modules in a model's blocks whose weights are matrices."""
    shapes = shapes_of(folder, ()).items()
    matrices = (name for name, shape in shapes if len(shape) == 2 and block_of(name) is not None)
    return [name.removesuffix(WEIGHT) for name in matrices if name.endswith(WEIGHT)]


def shapes_of(folder: Path, asked: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a model's weights by name, without a tied head.

    If one of the names `asked` for is that of a tied head, the table has the head's name.
    """
    config = read_config(folder)
    shapes = {name: weight.shape for name, weight in stored_weights(folder, config).items()}
    if config.get("tie_word_embeddings"):
        shapes.pop(HEAD, None)
        table = next((name for name in shapes if is_in("embed_tokens", name)), None)
        if table is not None and any(is_in(each, HEAD) for each in asked):
            shapes[HEAD] = shapes.pop(table)
    return shapes


def block_of(name: str) -> int | None:
    """Returns the place of the block that a weight is in; None outside of blocks."""
    return next((int(part) for part in name.split(".") if part.isdigit()), None)


def is_in(target: str, name: str) -> bool:
    """Returns whether a weight is in a module of that name, or in a part of it."""
    return f".{target}." in f".{name}"


def ends(name: str, weight: str) -> bool:
    """Returns whether a weight is that of a module whose name ends with `name`."""
    return bool(name) and f".{weight}".endswith(f".{name}{WEIGHT}")
