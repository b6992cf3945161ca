"""The settings of `zoo-gym delta create` for the form of a delta, as one frozen model."""

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from zoo.gym.config.settings import Settings

Codec: TypeAlias = Literal[
    "auto", "sign", "ternary", "int", "sparse", "codes2", "f16", "bf16", "f32"
]


class DeltaConfig(Settings, frozen=True):
    """How a delta is coded; conflicting settings are refused once the source is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    form: Literal["auto", "lowrank", "dense"] = Field(
        default="auto",
        description="lowrank for an adapter, dense for full weights; auto selects by the source",
    )
    codec: Codec = Field(
        default="auto",
        description="dense: sign, ternary, int, or sparse, which is lossless, and small if few"
        " weights changed; lowrank: codes2, sign, int, f16, bf16 or f32; auto selects by the bits",
    )
    bits: Literal[1, 2, 4, 8] | None = Field(
        default=None,
        description="bits per coded value: 1, 2, 4 or 8; by default 2 for lowrank, 1 for dense",
    )
    scale: Literal["row", "matrix", "column", "group"] = Field(
        default="row", description="values that share one scale in a dense delta of signs"
    )
    zero: Literal["auto", "minus", "mask"] = Field(
        default="auto",
        description="differences of zero in a delta of signs: minus codes them as minus, mask keeps"
        " them with one more bit per weight; auto masks a tensor if many are zero",
    )
    planes: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1,
        description="planes of signs, 1 to 8, each coding the residual of the previous ones",
    )
    rank: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="cut the factors of an adapter to this rank before coding; none: its own",
    )
