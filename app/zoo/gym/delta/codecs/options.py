"""Chooses the coding of each tensor from the settings, and refuses contradicting settings."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from zoo.gym.config.delta import DeltaConfig
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
