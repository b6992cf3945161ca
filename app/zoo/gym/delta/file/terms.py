"""The kinds of terms that a delta is a sum of, and their parts in the file.

`term_parts` defines names, types and shapes of parts for the writer, the reader and the size
formulas. `docs/reference/delta-format.md` specifies their meaning.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

GROUP: Literal[128] = 128

Scale: TypeAlias = Literal["row", "matrix", "column", "group"]
Zero: TypeAlias = Literal["minus", "mask"]
IntBits: TypeAlias = Literal[2, 4, 8]
FactorCodec: TypeAlias = Literal["codes2", "sign", "int2", "int4", "int8", "f16", "bf16", "f32"]
PartType: TypeAlias = Literal["F32", "F16", "BF16", "U16", "U8"]

PART_BYTES: dict[PartType, int] = {"F32": 4, "F16": 2, "BF16": 2, "U16": 2, "U8": 1}
"""Bytes per value of a part; a file has its parts in this order, which keeps each aligned."""

INT_BITS: dict[FactorCodec, IntBits] = {"int2": 2, "int4": 4, "int8": 8}
FACTOR_FLOATS: dict[FactorCodec, PartType] = {"f16": "F16", "bf16": "BF16", "f32": "F32"}

_SHORT: FactorCodec = "codes2"  # of both factors: written as `bits`


class Model(BaseModel):
    """The base of all models in the header: frozen and strict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RawTerm(Model):
    """The difference itself, float32."""

    kind: Literal["raw"] = "raw"


class SignTerm(Model):
    """Planes of one bit per value: plus or minus a scale."""

    kind: Literal["sign"] = "sign"
    scale: Scale = Field(default="row", description="what one scale is shared by")
    zero: Zero = Field(default="minus", description="minus: zeros give bit 0; mask: zeros stay")
    planes: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1, exclude_if=lambda planes: planes == 1, description="planes that add up"
    )
    group: Literal[128] | None = Field(
        default=None, exclude_if=lambda group: group is None, description="with a scale per group"
    )

    @model_validator(mode="after")
    def _group_fits(self) -> Self:
        if (self.scale == "group") != (self.group is not None):
            raise ValueError(f"group: expected {GROUP} with a scale per group only")
        return self


class TernaryTerm(Model):
    """Minus, nothing or plus the scale of a group."""

    kind: Literal["ternary"] = "ternary"
    group: Literal[128] = Field(default=GROUP, description="values that share a scale")


class IntTerm(Model):
    """Codes of few bits, spread evenly around zero, times the scale of a group."""

    kind: Literal["int"] = "int"
    bits: IntBits = Field(description="bits per code")
    group: Literal[128] = Field(default=GROUP, description="values that share a scale")


class SparseTerm(Model):
    """The fine-tune's own values where they differ from the base's."""

    kind: Literal["sparse"] = "sparse"
    count: PositiveInt = Field(description="values")
    index: Literal["U8", "U16"] = Field(description="type of the steps between their places")
    steps: PositiveInt = Field(description="entries of the index")
    values: Literal["F32", "F16", "BF16"] = Field(description="type of the values")


class LowRankTerm(Model):
    """The product of two factors, each with a codec of its own."""

    kind: Literal["lowrank"] = "lowrank"
    rank: PositiveInt = Field(description="rows of both factors")
    A: FactorCodec = Field(default=_SHORT, description="codec of the factor [rank, in]")
    B: FactorCodec = Field(default=_SHORT, description="codec of the factor [rank, out]")
    group: Literal[128] = Field(default=GROUP, description="factor entries that share a scale")

    @model_validator(mode="before")
    @classmethod
    def _read_short(cls, stored: Any) -> Any:  # noqa: ANN401
        if not isinstance(stored, dict):
            return stored
        if ("A" in stored) != ("B" in stored):
            raise ValueError(f"bits: expected 2 or two factor codecs, got {sorted(stored)}")
        if "bits" not in stored:
            return stored
        if stored["bits"] != 2 or "A" in stored:
            raise ValueError(f"bits: expected 2 and no factor codecs, got {sorted(stored)}")
        return {key: value for key, value in stored.items() if key != "bits"}

    @model_serializer(mode="wrap")
    def _write_short(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        if (self.A, self.B) != (_SHORT, _SHORT):
            return fields
        return {key: fields[key] for key in ("kind", "rank", "group")} | {"bits": 2}


Term: TypeAlias = Annotated[
    RawTerm | SignTerm | TernaryTerm | IntTerm | SparseTerm | LowRankTerm,
    Field(discriminator="kind"),
]


class TensorTerms(Model):
    """One base tensor in the delta, and the terms whose sum is its change.

    A tensor without terms is unchanged, but part of the base's identity.
    """

    name: str = Field(min_length=1, description="the tensor's name in the base")
    shape: tuple[PositiveInt, ...] = Field(description="the tensor's shape in the base")
    terms: tuple[Term, ...] = Field(description="at most one of each kind; sparse stands alone")

    @model_validator(mode="after")
    def _terms_fit(self) -> Self:
        kinds = [term.kind for term in self.terms]
        where = f"tensor {self.name!r}"
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"{where}: expected one term of a kind, got {kinds}")
        if "lowrank" in kinds and len(self.shape) != 2:
            raise ValueError(f"{where}: expected two dimensions, got {self.shape}")
        if "sparse" in kinds and len(kinds) > 1:
            raise ValueError(f"{where}: expected a sparse term to be the only one, got {kinds}")
        return self


class Part(Model):
    """One tensor of the delta file."""

    name: str
    dtype: PartType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes that the part takes in the file."""
        return math.prod(self.shape) * PART_BYTES[self.dtype]


def rows_and_columns(shape: Sequence[int]) -> tuple[int, int]:
    """Returns the shape as a matrix: the product of all other dimensions, and the last one.

    >>> rows_and_columns((2, 3, 5)), rows_and_columns((7,)), rows_and_columns(())
    ((6, 5), (1, 7), (1, 1))
    """
    return (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)


def term_parts(tensor: TensorTerms) -> list[Part]:
    """Returns the parts of a tensor's terms in the file: name, type and shape."""
    return [
        Part(name=f"{tensor.name}.{name}", dtype=dtype, shape=shape)
        for term in tensor.terms
        for name, dtype, shape in _parts(tensor.shape, term)
    ]


_Description: TypeAlias = tuple[str, PartType, tuple[int, ...]]


def _parts(shape: tuple[int, ...], term: Term) -> Iterator[_Description]:
    rows, columns = rows_and_columns(shape)
    match term:
        case RawTerm():
            yield "raw", "F32", shape
        case SignTerm():
            yield from _sign_parts(term, rows, columns)
        case TernaryTerm():
            yield "ternary.codes", "U8", (rows, -(-columns // 5))
            yield "ternary.scale", "F16", (rows, groups_of(columns))
        case IntTerm():
            yield "int.codes", "U8", (rows, code_bytes(columns, term.bits))
            yield "int.scale", "F16", (rows, groups_of(columns))
        case SparseTerm():
            yield "sparse.value", term.values, (term.count,)
            yield "sparse.index", term.index, (term.steps,)
        case LowRankTerm():
            yield from _factor_parts("A", term.A, term.rank, columns)
            yield from _factor_parts("B", term.B, term.rank, rows)


def _sign_parts(term: SignTerm, rows: int, columns: int) -> Iterator[_Description]:
    plane = (rows, code_bytes(columns, 1))
    scales: dict[Scale, tuple[int, ...]] = {
        "row": (rows,),
        "matrix": (1,),
        "column": (columns,),
        "group": (rows, groups_of(columns)),
    }
    for name in plane_names(term):
        yield f"sign{name}", "U8", plane
        yield f"scale{name}", "F32", scales[term.scale]
    if term.zero == "mask":
        yield "mask", "U8", plane


def plane_names(term: SignTerm) -> list[str]:
    """Returns the suffixes in the names of each plane's parts: none, `.2`, `.3` ..."""
    return ["", *(f".{plane}" for plane in range(2, term.planes + 1))]


def _factor_parts(side: str, codec: FactorCodec, rank: int, length: int) -> Iterator[_Description]:
    grid = (rank, groups_of(length))
    if codec in FACTOR_FLOATS:
        yield f"{side}.values", FACTOR_FLOATS[codec], (rank, length)
    elif codec == "sign":
        yield f"{side}.sign", "U8", (rank, code_bytes(length, 1))
        yield f"{side}.scale", "F16", grid
    else:
        bits = INT_BITS.get(codec, 2)
        yield f"{side}.codes", "U8", (rank, code_bytes(length, bits))
        yield f"{side}.scale", "F16", grid
        if codec == "codes2":
            yield f"{side}.zero", "U8", grid


def groups_of(columns: int) -> int:
    """Returns the number of groups in a row."""
    return -(-columns // GROUP)


def code_bytes(columns: int, bits: int) -> int:
    """Returns the bytes of a row of codes."""
    return -(-columns * bits // 8)
