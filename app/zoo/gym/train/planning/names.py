"""Refuses names and shapes that the base's files contradict, before there is a run.

Only headers are read, and no engine is imported, which would take longer than all of the command.
Loading checks the same on the model itself. Left out: models with experts, whose modules have other
names than the tensors in their files.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from zoo.core import read_header
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import InputError
from zoo.gym.paths import given_path
from zoo.gym.train.loading import freeze_spec, lora_spec, oft_spec, projection_spec
from zoo.gym.train.planning.faults import joined
from zoo.gym.train.planning.parts import FIRST, SECOND, block_of, ends, is_in
from zoo.gym.train.planning.stored import stored_faults
from zoo.models.adapters import ALL_LINEAR, WEIGHTS_FILE, stored_name
from zoo.models.folder import model_geometry, read_config, stores_in_by_out
from zoo.models.stored_weights import WEIGHT, stored_weights
from zoo.models.tied_head import HEAD

PREFIX = "base_model.model."
"""What peft puts before the names of a model's modules."""

UNKNOWN = (0, 0)
"""The shape of a matrix in codes whose files do not say it."""

LAYERS = ("names that layers end with", "this model has layers that end with {}")
TRAINED = ("modules with trained matrices", "this model has {}")

SAID = {
    "lora_target": LAYERS,
    "oft_target": LAYERS,
    "additional_target": (
        "names that modules end with",
        "outside of its layers this model has {}",
    ),
    "freeze_trainable_modules": ("modules that these layers have", "this model has {}"),
    "freeze_extra_modules": ("modules that these layers have", "this model has {}"),
    "galore_target": TRAINED,
    "apollo_target": TRAINED,
}
"""What a setting is expected to name, and a hint with what there is, in the engines' words."""

Fits: TypeAlias = Callable[[str, str], bool]
"""Whether a given name is that of a weight in the files."""


@dataclass(frozen=True)
class Base:
    """What the files of a base say.

    Attributes:
        weights: the shape of each weight, by name; a tied head has its own name, too.
        layers: the number of blocks.
        turned: whether matrices are stored as [in, out].
    """

    weights: Mapping[str, tuple[int, ...]]
    layers: int
    turned: bool

    @property
    def matrices(self) -> list[str]:
        """The names of the weights that are matrices, or codes of some."""
        return [name for name, shape in self.weights.items() if len(shape) == 2]


def check_names(config: TrainConfig, folder: Path) -> None:
    """Checks the names of layers and modules in the settings, and the adapter to train further.

    Raises:
        InputError: the base has no such layers or modules, or layers of other shapes; one line for
            each setting.
    """
    base, faults = _read(folder), list(stored_faults(config, folder))
    if base is not None:
        faults += [*_of_adapter(config, base), *_of_freezing(config, base)]
    if faults:
        raise joined(faults)


def _read(folder: Path) -> Base | None:
    """Returns what the files say; None for a model whose modules have other names."""
    config, geometry = read_config(folder), model_geometry(folder)
    stored = stored_weights(folder, config)
    if geometry is None or any("expert" in name for name in stored):
        return None
    shapes = {
        name: UNKNOWN if weight.code_bytes and len(weight.shape) == 1 else weight.shape
        for name, weight in stored.items()
    }
    if geometry.tied and HEAD not in shapes:
        table = next((shape for name, shape in shapes.items() if is_in("embed_tokens", name)), None)
        shapes |= {} if table is None else {HEAD: table}
    return Base(shapes, geometry.layers, stores_in_by_out(config))


def _of_adapter(config: TrainConfig, base: Base) -> Iterator[InputError]:
    if config.adapter_name_or_path is not None:
        file = given_path(config.adapter_name_or_path) / WEIGHTS_FILE
        yield from list(_of_factors(file, base))[:1]
        return
    if not config.trains_adapter:
        return
    rotates = config.finetuning_type == "oft"
    spec, key = (oft_spec(config), "oft_target") if rotates else (lora_spec(config), "lora_target")
    if spec.targets != (ALL_LINEAR,):
        inside = [name for name in base.matrices if block_of(name) is not None or name == HEAD]
        yield from _unknown(key, spec.targets, base.matrices, ends, inside)
    module_weights = {f"{part}{WEIGHT}" for name in base.weights for part in _modules(name)}
    outside = [name for name in base.weights if block_of(name) is None]
    yield from _unknown("additional_target", spec.whole, module_weights, ends, outside)
    if rotates and not base.turned:
        yield from list(_of_blocks(config, base))[:1]


def _of_factors(file: Path, base: Base) -> Iterator[InputError]:
    """Yields the factors of an adapter whose layer the base lacks, or has in another shape."""
    shapes = {name: info.shape for name, info in read_header(file).tensors.items()}
    for name, first in shapes.items():
        second = shapes.get(name.replace(FIRST, SECOND))
        if FIRST not in name or second is None or len(first) != 2 or len(second) != 2:
            continue
        module = name.removeprefix(PREFIX).partition(FIRST[:-1])[0]
        weight = stored_name(module, base.weights)
        if weight is None:
            yield _other_model(file, f"expected layers of the base, got {module!r}")
            continue
        shape, adapter_shape = base.weights[weight], (second[0], first[1])
        shape = shape[::-1] if base.turned and weight != HEAD else shape
        if shape not in {adapter_shape, UNKNOWN}:
            text = f"expected factors of a layer of {shape[0]} x {shape[1]}"
            yield _other_model(
                file, f"{module}: {text}, got {adapter_shape[0]} x {adapter_shape[1]}"
            )


def _other_model(file: Path, text: str) -> InputError:
    hint = "the adapter was made for another model"
    return InputError(
        f"adapter_name_or_path: {file}: {text}", hint=hint, code="train.adapter_shape"
    )


def _of_blocks(config: TrainConfig, base: Base) -> Iterator[InputError]:
    """Yields the layers whose inputs the blocks of OFT do not divide."""
    spec = oft_spec(config)
    key, size = ("oft_rank", spec.rank) if spec.rank else ("oft_block_size", spec.block_size)
    everywhere = spec.targets == (ALL_LINEAR,)
    for name in base.matrices:
        chosen = block_of(name) is not None if everywhere else _any_ends(spec.targets, name)
        inputs = base.weights[name][1]
        if chosen and inputs % size:
            nearest = min(_divisors(inputs), key=lambda divisor: (abs(divisor - size), divisor))
            yield InputError(
                f"{key}: expected a divisor of the {inputs} inputs of "
                f"{name.removesuffix(WEIGHT)!r}, got {size}",
                hint=f"the nearest one is {nearest}; oft_target names the layers",
                code="train.bad_block_size",
            )


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _of_freezing(config: TrainConfig, base: Base) -> Iterator[InputError]:
    """Yields what `freeze` trains and the base lacks, and matrices that are not there."""
    trained: Sequence[str] = list(base.weights)
    if config.finetuning_type == "freeze":
        spec = freeze_spec(config)
        if abs(spec.layers) > base.layers:
            text = f"expected at most the model's {base.layers} layers, got {spec.layers}"
            yield InputError(f"freeze_trainable_layers: {text}", code="train.no_such_layer")
            return
        last = spec.layers >= 0
        places = range(base.layers - spec.layers, base.layers) if last else range(-spec.layers)
        inside = [name for name in base.weights if block_of(name) in places]
        outside = [name for name in base.weights if block_of(name) is None]
        if inside:
            yield from _unknown("freeze_trainable_modules", spec.modules, inside, is_in)
        yield from _unknown("freeze_extra_modules", spec.extra, outside, is_in)
        trained = [name for name in inside if any(_in(each, name) for each in spec.modules)]
        trained += [name for name in outside if any(_in(each, name) for each in spec.extra)]
    projected = projection_spec(config)
    if projected is None or projected.targets == (ALL_LINEAR,) or config.trains_adapter:
        return
    key = "galore_target" if config.optim == "galore" else "apollo_target"
    matrices = [name for name in trained if len(base.weights[name]) == 2]
    yield from _unknown(key, projected.targets, matrices, is_in)


def _unknown(
    key: str,
    names: Iterable[str],
    weights: Collection[str],
    fits: Fits,
    listed: Collection[str] | None = None,
) -> Iterator[InputError]:
    """Yields an error for the first of the names that fits no weight.

    Args:
        key: the setting.
        names: those given in it.
        weights: those that they may be of.
        fits: whether a name is that of a weight.
        listed: the weights whose modules the hint lists, if others.
    """
    expected, hint = SAID[key]
    for name in names:
        if name != "all" and not any(fits(name, weight) for weight in weights):
            modules = (weight.split(".")[:-1] for weight in listed or weights)
            last = {parts[-1] for parts in modules if parts} - {""}
            endings = ", ".join(sorted(end for end in last if not end.isdigit()))
            yield InputError(
                f"{key}: expected {expected}, got {name!r}",
                hint=hint.format(endings),
                code="train.no_such_module",
            )
            return


def _any_ends(names: Iterable[str], weight: str) -> bool:
    return any(ends(name, weight) for name in names)


def _in(name: str, weight: str) -> bool:
    return name == "all" or is_in(name, weight)


def _modules(weight: str) -> Iterator[str]:
    """Yields the modules around a weight, from the inside."""
    module = weight.rpartition(".")[0]
    while module:
        yield module
        module = module.rpartition(".")[0]
