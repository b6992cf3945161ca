"""Chooses the coding of each tensor from the settings, and refuses contradicting settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypeVar, cast

from zoo.gym.arguments import instance_of, text_of
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.config.report import shown
from zoo.gym.delta.file.header import Form
from zoo.gym.delta.file.terms import FactorCodec, IntBits, Scale
from zoo.gym.errors import InputError

DenseCodec: TypeAlias = Literal["sign", "ternary", "int", "sparse"]


@dataclass(frozen=True)
class Dense:
    """The coding of the matrices of a full fine-tune; `bits` is for `int`, the rest for `sign`."""

    codec: DenseCodec = "sign"
    bits: IntBits = 4
    scale: Scale = "row"
    zero: Literal["auto", "minus", "mask"] = "auto"
    planes: int = 1


@dataclass(frozen=True)
class LowRank:
    """The coding of both factors of an adapter, and the rank that they are cut to before."""

    codec: FactorCodec = "codes2"
    rank: int | None = None


Coding: TypeAlias = Dense | LowRank
T = TypeVar("T")

_DENSE: dict[str, dict[int | None, tuple[DenseCodec, IntBits]]] = {
    "auto": {None: ("sign", 4), 1: ("sign", 4), 2: ("int", 2), 4: ("int", 4), 8: ("int", 8)},
    "sign": {None: ("sign", 4), 1: ("sign", 4)},
    "int": {None: ("int", 4), 2: ("int", 2), 4: ("int", 4), 8: ("int", 8)},
    "ternary": {None: ("ternary", 4)},
    "sparse": {None: ("sparse", 4)},
}
_LOWRANK: dict[str, dict[int | None, FactorCodec]] = {
    "auto": {None: "codes2", 1: "sign", 2: "codes2", 4: "int4", 8: "int8"},
    "codes2": {None: "codes2", 2: "codes2"},
    "sign": {None: "sign", 1: "sign"},
    "int": {None: "int4", 2: "int2", 4: "int4", 8: "int8"},
    "f16": {None: "f16"},
    "bf16": {None: "bf16"},
    "f32": {None: "f32"},
}


def form_of(coding: Coding) -> Form:
    """Returns the form of a delta with this coding."""
    return "lowrank" if isinstance(coding, LowRank) else "dense"


def choose_coding(config: DeltaConfig, *, from_adapter: bool) -> Coding:
    """Returns the coding for the tensors of a source.

    Args:
        config: the settings.
        from_adapter: True if the source is a LoRA adapter, False for full weights.

    Raises:
        InputError: the settings do not apply to this source, or contradict each other.
    """
    form: Form = "lowrank" if from_adapter else "dense"
    made_of = "a LoRA adapter" if from_adapter else "full weights"
    if config.form not in {"auto", form}:
        got = repr(config.form)
        raise InputError(
            f"form: expected {form!r} for a delta of {made_of}, got {got}", code="delta.bad_option"
        )
    coding = _lowrank(config) if from_adapter else _dense(config)
    if not (isinstance(coding, Dense) and coding.codec == "sign"):
        _refuse_sign_options(config, "lowrank" if from_adapter else coding.codec)
    return coding


def choose_layer_codings(
    layers: Mapping[str, DeltaConfig], names: Sequence[str], *, from_adapter: bool
) -> dict[str, Coding]:
    """Returns the codings of tensors whose settings are their own, by name.

    Args:
        layers: the settings by name or pattern, see `names_layer`; the first that fits counts.
        names: the tensors that a coding applies to.
        from_adapter: whether the source is a LoRA adapter, not full weights.

    Raises:
        InputError: a layer is none of the tensors, earlier ones have all of its tensors, or its
            settings do not apply to this source.
    """
    codings: dict[str, Coding] = {}
    if not isinstance(cast("object", layers), Mapping):
        raise InputError(
            f"layers: expected a mapping of names to DeltaConfig, got {shown(layers)}",
            code="delta.no_such_layer",
        )
    for layer, config in layers.items():
        text_of("layers", layer)
        instance_of(f"layers: {layer}", config, DeltaConfig)
        fitting = [name for name in names if names_layer(layer, name)]
        if not fitting:
            what = "layer of the adapter" if from_adapter else "matrix of the base"
            raise InputError(
                f"layers: expected the name of a {what}, got {layer!r}", code="delta.no_such_layer"
            )
        if codings.keys() >= set(fitting):
            raise InputError(
                f"layers: expected {layer!r} before the others that it is among: the first counts",
                code="delta.no_such_layer",
            )
        coding = choose_coding(config, from_adapter=from_adapter)
        codings = dict.fromkeys(fitting, coding) | codings
    return codings


def names_layer(layer: str, name: str) -> bool:
    """Returns whether a tensor is that layer, named without `.weight` or by a pattern.

    >>> names_layer("*.down_proj", "model.layers.0.mlp.down_proj.weight")
    True
    """
    return any(fnmatchcase(each, layer) for each in (name, name.removesuffix(".weight")))


def _dense(config: DeltaConfig) -> Dense:
    if config.rank is not None:
        raise InputError(
            f"rank: expected none for a delta of full weights, got {config.rank}",
            code="delta.bad_option",
        )
    codec, bits = _look_up(_DENSE, config, "dense")
    return Dense(codec, bits, config.scale, config.zero, config.planes)


def _lowrank(config: DeltaConfig) -> LowRank:
    return LowRank(_look_up(_LOWRANK, config, "lowrank"), config.rank)


def _look_up(table: dict[str, dict[int | None, T]], config: DeltaConfig, form: Form) -> T:
    if config.codec not in table:
        expected = ", ".join(sorted(table))
        raise InputError(
            f"codec: expected {expected} for a {form} delta, got {config.codec!r}",
            code="delta.bad_option",
        )
    by_bits = table[config.codec]
    if config.bits not in by_bits:
        expected = " or ".join(str(bits) for bits in by_bits if bits) or "none"
        what = f"codec {config.codec!r}" if config.codec != "auto" else f"a {form} delta"
        raise InputError(
            f"bits: expected {expected} for {what}, got {config.bits}", code="delta.bad_option"
        )
    return by_bits[config.bits]


def _refuse_sign_options(config: DeltaConfig, artifact: str) -> None:
    defaults = DeltaConfig()
    for key in ("scale", "zero", "planes"):
        got = getattr(config, key)
        if got != getattr(defaults, key):
            raise InputError(
                f"{key}: expected none for a {artifact} delta, got {got!r}", code="delta.bad_option"
            )
