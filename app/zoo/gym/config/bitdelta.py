"""The published settings of a BitDelta, a delta of few bits per value (arXiv:2402.10193)."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.config.settings import Settings
from zoo.gym.errors import InputError

NOT_CLIPPED = (
    "changes are coded as they are, and a scale of 128 values or a row limits what one of them does"
    " to the others: expected none"
)

_REFUSED = {
    "aggregation_weight": "a result of DeltaSoup is applied whole: expected none, or scaled in"
    " apply_delta",
    "byzantine_robust": "DeltaSoupConfig has the method that combines contributions: expected none",
    "cache_base_model": "the base is read from its files, and never kept in a delta: expected none",
    "clip_outliers": NOT_CLIPPED,
    "outlier_threshold": NOT_CLIPPED,
}


def sentence(text: str) -> PydanticCustomError:
    """Returns the error of a validator, with the message as it is shown."""
    return PydanticCustomError("sentence", "{text}", {"text": text})


def conflict(key: str, text: str) -> PydanticCustomError:
    """Returns the error of a validator of the whole model, about one of its settings."""
    return PydanticCustomError("disagree", "{faults}", {"faults": {key: text}})


def refuse_keys(values: object, refused: Mapping[str, str]) -> None:
    """Refuses published keys that would have no effect.

    Raises:
        PydanticCustomError: one is given; the message has what to write instead.
    """
    for key, text in refused.items():
        if isinstance(values, Mapping) and key in values:
            raise conflict(key, text)


def _packed(value: bool) -> bool:
    if not value:
        raise sentence(
            "the bits are always packed: expected true, or create_delta with"
            " DeltaConfig(codec='sparse') for exact weights, 'f32' for exact factors"
        )
    return value


Packed = Annotated[bool, AfterValidator(_packed)]
"""`enable_compression`, which is always done."""


def symmetric_delta(symmetric: bool, *, from_adapter: bool) -> DeltaConfig:
    """Returns the coding of 2 bits, without a zero point or with one.

    Raises:
        InputError: a zero point for full weights, which no codec has.
    """
    if symmetric:
        return DeltaConfig(codec="int", bits=2)
    if not from_adapter:
        raise InputError(
            "symmetric: expected true for full weights: only codes of factors have zero points",
            code="config.bad_coding",
        )
    return DeltaConfig(codec="codes2")


class BitDeltaConfig(Settings, frozen=True):
    """How a fine-tune is compressed, under the published names.

    An adapter becomes a low-rank delta of coded factors, full weights a dense delta of signs.
    A setting that would have no effect is refused by name.
    """

    bits: Literal[1, 2, 4, 8] = Field(default=1, description="bits per coded value")
    group_size: Literal[128] = Field(
        default=128,
        description="coded values that share one scale, in factors, integers and with scale group",
    )
    symmetric: bool | None = Field(
        default=None,
        description="codes without a zero point; false only for 2 bits of an adapter's factors,"
        " which have one by default: they lose less",
    )
    enable_compression: Packed = Field(default=True, description="pack the bits; always done")
    form: Literal["auto", "lowrank", "dense"] = Field(
        default="auto",
        description="lowrank for an adapter, dense for full weights; auto selects by the model",
    )
    scale: Literal["row", "matrix", "column", "group"] = Field(
        default="row", description="values that share one scale in signs of full weights"
    )
    zero: Literal["auto", "minus", "mask"] = Field(
        default="auto",
        description="differences of zero in signs of full weights: minus codes them as minus, mask"
        " keeps them; auto masks a tensor if many are zero",
    )
    planes: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1, description="planes of signs of full weights, each of what the others leave"
    )
    safety_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="the share of the base's refusals of harmful prompts that a variant must keep",
    )
    enable_deltasoup: bool = Field(
        default=False,
        description="code full weights as DeltaSoup and rounds take them: signs with one scale for"
        " each matrix; contributing is a call of its own",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_others(cls, values: object) -> object:
        refuse_keys(values, _REFUSED)
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.symmetric is False and self.bits != 2:
            raise conflict(
                "symmetric",
                f"expected true with bits {self.bits}: only 2 bits of an adapter's factors have"
                " zero points",
            )
        if self.enable_deltasoup:
            self._check_contribution()
        return self

    def _check_contribution(self) -> None:
        for key, expected in (("bits", 1), ("scale", "matrix"), ("planes", 1)):
            value = getattr(self, key)
            if key in self.model_fields_set and value != expected:
                raise conflict(
                    key,
                    f"expected {expected} with enable_deltasoup, whose contributions are one plane"
                    f" of signs with one scale for each matrix, got {value}",
                )

    def as_delta(self, *, from_adapter: bool) -> DeltaConfig:
        """Returns the same settings as `create_delta` takes them.

        Args:
            from_adapter: whether the source is a LoRA adapter, not full weights.

        Raises:
            InputError: a setting that is not for this source.
        """
        if self.enable_deltasoup and from_adapter:
            raise InputError(
                "enable_deltasoup: expected false for an adapter, whose factors are no signs",
                hint="DeltaSoup(DeltaSoupConfig(use_bitdelta=False)).contribute(user, adapter)",
                code="config.bad_coding",
            )
        coding = DeltaConfig(bits=self.bits)
        if self.bits == 2:
            symmetric = not from_adapter if self.symmetric is None else self.symmetric
            coding = symmetric_delta(symmetric, from_adapter=from_adapter)
        signs = {
            "scale": "matrix" if self.enable_deltasoup else self.scale,
            "zero": self.zero,
            "planes": self.planes,
        }
        return coding.model_copy(update={"form": self.form, **signs})
