"""What a delta file says about itself: the JSON header, version 1.

The terms of a tensor fix the names, types and shapes of its parts in the file; `term_parts` is
the one place that knows them, for the writer, the reader and the size formulas alike.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, model_validator

FORMAT = "zoo-gym-delta"
VERSION = "1"
GROUP: Literal[128] = 128

Form: TypeAlias = Literal["lowrank", "dense"]
Scale: TypeAlias = Literal["row", "matrix"]
PartType: TypeAlias = Literal["U8", "F16", "F32"]
PART_BYTES: dict[PartType, int] = {"U8": 1, "F16": 2, "F32": 4}

Hex64: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SignTerm(_Model):
    """One bit per value: plus or minus the scale of its row, or of the whole matrix."""

    kind: Literal["sign"] = "sign"
    scale: Scale = Field(default="row", description="what one scale is shared by")
    zero: Literal["minus"] = Field(default="minus", description="a difference of zero gives bit 0")


class LowRankTerm(_Model):
    """The product of two factors, each at 2 bits with a scale and a zero per group."""

    kind: Literal["lowrank"] = "lowrank"
    rank: PositiveInt = Field(description="rows of both factors")
    bits: Literal[2] = Field(default=2, description="bits per factor entry")
    group: Literal[128] = Field(default=GROUP, description="factor entries that share a scale")


class RawTerm(_Model):
    """The difference itself, float32."""

    kind: Literal["raw"] = "raw"


Term: TypeAlias = Annotated[SignTerm | LowRankTerm | RawTerm, Field(discriminator="kind")]


class TensorTerms(_Model):
    """One base tensor that the delta knows, and the terms whose sum is its change.

    A tensor without terms stays as it is, but the base's identity covers it.
    """

    name: str = Field(min_length=1, description="the tensor's name in the base")
    shape: tuple[PositiveInt, ...] = Field(description="the tensor's shape in the base")
    terms: tuple[Term, ...] = Field(description="at most one of each kind")

    @model_validator(mode="after")
    def _terms_fit(self) -> Self:
        kinds = [term.kind for term in self.terms]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"tensor {self.name!r}: expected one term of a kind, got {kinds}")
        if "lowrank" in kinds and len(self.shape) != 2:
            raise ValueError(f"tensor {self.name!r}: expected two dimensions, got {self.shape}")
        return self


class Base(_Model):
    """The model that the delta belongs to."""

    identity: Hex64 = Field(description="hash over the base tensors that are listed")
    id: str = Field(description="the name under which the base was used")
    revision: str | None = Field(description="its revision, where it has one")


class Quality(_Model):
    """What the delta is worth on held-out examples; losses in nats per learned token.

    `recovered` = (base - delta) / (base - tuned), None where tuned is no better than base;
    `kl` = KL(tuned || delta). Without a tuned model, `tuned`, `recovered` and `kl` are None.
    """

    rows: PositiveInt = Field(description="held-out examples")
    tokens: PositiveInt = Field(description="learned tokens in them")
    base: Finite = Field(description="loss of the base")
    tuned: Finite | None = Field(description="loss of the fine-tune")
    delta: Finite = Field(description="loss of base plus delta")
    recovered: Finite | None = Field(description="share of the fine-tune's gain that is kept")
    kl: Finite | None = Field(description="KL(tuned || delta), nats per learned token")


class DeltaHeader(_Model):
    """Everything a delta file says about itself, but for its digest."""

    form: Form = Field(description="lowrank: lowrank terms only; dense: sign and raw terms")
    base: Base
    tensors: tuple[TensorTerms, ...] = Field(min_length=1, description="sorted by name")
    recipe: dict[str, JsonValue] = Field(description="the settings that made the fine-tune")
    seed: int | None = Field(description="the seed of the run, or of a control's random signs")
    data: Hex64 | None = Field(description="fingerprint of the training data")
    privacy: None = Field(description="privacy record; none in version 1")
    tool: str = Field(description="the program that wrote the file, and its version")
    quality: Quality | None = Field(description="measured, never typed")

    @model_validator(mode="after")
    def _tensors_fit(self) -> Self:
        names = [tensor.name for tensor in self.tensors]
        if names != sorted(set(names)):
            raise ValueError("tensors: expected each name once, in sorted order")
        allowed = {"lowrank"} if self.form == "lowrank" else {"sign", "raw"}
        if not any(tensor.terms for tensor in self.tensors):
            raise ValueError("tensors: expected at least one term, got none")
        for tensor in self.tensors:
            for term in tensor.terms:
                if term.kind not in allowed:
                    message = f"tensor {tensor.name!r}: expected {sorted(allowed)}, as in a"
                    raise ValueError(f"{message} {self.form} delta, got {term.kind!r}")
        return self


class Part(_Model):
    """One tensor of the delta file."""

    name: str
    dtype: PartType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes that the part takes in the file."""
        return math.prod(self.shape) * PART_BYTES[self.dtype]


def rows_and_columns(shape: Sequence[int]) -> tuple[int, int]:
    """Returns a shape as a matrix: the last dimension against all the others."""
    return math.prod(shape[:-1]), shape[-1]


def term_parts(tensor: TensorTerms) -> list[Part]:
    """Returns the parts that a tensor's terms must have in the file: name, type and shape."""
    return [part for term in tensor.terms for part in _parts(tensor, term)]


def _parts(tensor: TensorTerms, term: SignTerm | LowRankTerm | RawTerm) -> list[Part]:
    if isinstance(term, RawTerm):
        return [Part(name=f"{tensor.name}.raw", dtype="F32", shape=tensor.shape)]
    if isinstance(term, SignTerm):
        rows, columns = rows_and_columns(tensor.shape or (1,))
        scales = rows if term.scale == "row" else 1
        return [
            Part(name=f"{tensor.name}.sign", dtype="U8", shape=(rows, -(-columns // 8))),
            Part(name=f"{tensor.name}.scale", dtype="F32", shape=(scales,)),
        ]
    rows, columns = tensor.shape
    return [
        *_factor_parts(f"{tensor.name}.A", term.rank, columns),
        *_factor_parts(f"{tensor.name}.B", term.rank, rows),
    ]


def _factor_parts(stem: str, rank: int, length: int) -> list[Part]:
    groups = -(-length // GROUP)
    return [
        Part(name=f"{stem}.codes", dtype="U8", shape=(rank, -(-length // 4))),
        Part(name=f"{stem}.scale", dtype="F16", shape=(rank, groups)),
        Part(name=f"{stem}.zero", dtype="U8", shape=(rank, groups)),
    ]
