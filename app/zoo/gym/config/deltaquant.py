"""The published settings of DeltaQuant: a delta of integers, signs or ternary digits."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from zoo.gym.config.bitdelta import (
    NOT_CLIPPED,
    Packed,
    conflict,
    refuse_keys,
    sentence,
    symmetric_delta,
)
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.config.report import shown
from zoo.gym.config.settings import Settings
from zoo.gym.config.values import Whole
from zoo.gym.errors import InputError


class QuantMethod(StrEnum):
    """What a change is coded as; `DYNAMIC` is refused: bits are chosen by whoever compresses."""

    INT2 = "int2"
    INT4 = "int4"
    INT8 = "int8"
    BINARY = "binary"
    TERNARY = "ternary"
    DYNAMIC = "dynamic"


BITS = {
    QuantMethod.BINARY: 1,
    QuantMethod.INT2: 2,
    QuantMethod.INT4: 4,
    QuantMethod.INT8: 8,
}
"""Bits per code; a ternary digit has log2(3)."""

_METHODS = frozenset(QuantMethod) - {QuantMethod.DYNAMIC}
_OF_BITS = {bits: method for method, bits in BITS.items()}

SENSITIVE_BITS = 8
"""Of the layers in `sensitive_layers`."""

_RANGES = (
    "ranges are not cut at a percentile: the scale of 128 values reaches over the largest of them:"
    " expected none, or layer_bits for layers that lose much"
)
_REFUSED = {
    "batch_processing": "tensors are coded one by one, each by all cores: expected none",
    "calibration_percentile": _RANGES,
    "clip_outliers": NOT_CLIPPED,
    "outlier_threshold": NOT_CLIPPED,
    "percentile": _RANGES,
    "percentile_calibration": _RANGES,
    "use_cuda_kernel": "changes are coded on the CPU: expected none",
}


def _method(value: object) -> QuantMethod:
    if isinstance(value, str) and value.lower() in _METHODS:
        return QuantMethod(value.lower())
    more = (
        ", with layer_bits for layers that need others, or zoo-gym delta create --max-bytes, which"
        " chooses by measuring"
    )
    is_dynamic = isinstance(value, str) and value.lower() == QuantMethod.DYNAMIC
    expected = f"int2, int4, int8, binary or ternary{more if is_dynamic else ''}"
    raise sentence(f"expected {expected}, got {shown(value)}")


def _layers(value: object) -> object:
    if value is None:  # the published default
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise sentence(f"expected a list of names of layers, got {shown(value)}")
    return tuple(cast("Iterable[object]", value))


def _bits(value: object) -> object:
    return {} if value is None else value


def _not_entropy_coded(value: bool) -> bool:
    if value:
        raise sentence("codes have a fixed number of bits: expected false")
    return value


Bits = Literal[1, 2, 4, 8]


class DeltaQuantConfig(Settings, frozen=True):
    """How a fine-tune is compressed by DeltaQuant, under the published names.

    A setting that would have no effect is refused by name. Layers are named as the tensors of the
    base, with or without `.weight`, or by a pattern such as `*.down_proj`.
    """

    method: Annotated[QuantMethod, BeforeValidator(_method)] = Field(
        default=QuantMethod.INT4, description="what a change is coded as"
    )
    symmetric: bool = Field(
        default=True,
        description="codes without a zero point; false only for int2 of an adapter's factors",
    )
    per_channel: bool = Field(
        default=True,
        description="no scale is shared by two rows; false only for binary, a scale per matrix",
    )
    group_size: Literal[128] = Field(
        default=128, description="coded values that share one scale, except in binary full weights"
    )
    calibration_samples: Whole = Field(
        default=256, ge=1, description="held-out rows, at most, that a delta is measured on"
    )
    sensitive_layers: Annotated[tuple[str, ...], BeforeValidator(_layers)] = Field(
        default=(), description="layers that are coded in 8 bits"
    )
    layer_bits: Annotated[Mapping[str, Bits], BeforeValidator(_bits)] = Field(
        default_factory=dict[str, Bits],
        description="bits of some layers, by name; of several patterns the first that fits counts,"
        " after sensitive_layers",
    )
    enable_compression: Packed = Field(default=True, description="pack the codes; always done")
    use_huffman: Annotated[bool, AfterValidator(_not_entropy_coded)] = Field(
        default=False, description="entropy coding, which there is not"
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_others(cls, values: object) -> object:
        refuse_keys(values, _REFUSED)
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.symmetric and self.method is not QuantMethod.INT2:
            raise conflict(
                "symmetric",
                f"expected true with {self.method}: only int2 of an adapter's factors has zero"
                " points",
            )
        if not self.per_channel and self.method is not QuantMethod.BINARY:
            raise conflict(
                "per_channel",
                f"expected true with {self.method}, whose scales are of 128 values in a row, or"
                " method binary, which has one for a matrix",
            )
        stated = {name.removesuffix(".weight") for name in self.layer_bits}
        for name in self.sensitive_layers:
            if name.removesuffix(".weight") in stated:
                raise conflict(
                    "sensitive_layers",
                    f"expected each layer once, got {name!r}, which is in layer_bits",
                )
        return self

    @property
    def bits(self) -> int | None:
        """Bits per code; None for ternary digits."""
        return BITS.get(self.method)

    def as_delta(self, *, from_adapter: bool) -> DeltaConfig:
        """Returns the same settings as `create_delta` takes them, without those of some layers.

        Args:
            from_adapter: whether the source is a LoRA adapter, not full weights.

        Raises:
            InputError: a setting that is not for this source.
        """
        return self._coded(self.method, from_adapter)

    def layers(self, *, from_adapter: bool) -> dict[str, DeltaConfig]:
        """Returns the settings of some layers, by name.

        Raises:
            InputError: a setting that is not for this source.
        """
        bits = {**dict.fromkeys(self.sensitive_layers, SENSITIVE_BITS), **self.layer_bits}
        return {name: self._coded(_OF_BITS[number], from_adapter) for name, number in bits.items()}

    def _coded(self, method: QuantMethod, from_adapter: bool) -> DeltaConfig:
        if not from_adapter and method is QuantMethod.BINARY:
            return DeltaConfig(bits=1, scale="row" if self.per_channel else "matrix")
        if from_adapter and not self.per_channel:
            raise InputError(
                "per_channel: expected true for an adapter, whose factors have a scale for 128"
                " values",
                code="config.bad_coding",
            )
        if method is QuantMethod.TERNARY:
            if from_adapter:
                raise InputError(
                    "method: expected int2, int4, int8 or binary for an adapter, got ternary",
                    code="config.bad_coding",
                )
            return DeltaConfig(codec="ternary")
        if method is QuantMethod.INT2:
            return symmetric_delta(self.symmetric, from_adapter=from_adapter)
        return DeltaConfig.model_validate({"bits": BITS[method]})
