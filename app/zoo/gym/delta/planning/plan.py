"""Plans the sizes of deltas of a zen model, for one user and for many.

Payload sizes follow from the format's formulas. File sizes include the real header, without recipe
and quality.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zoo.gym.delta.codecs.dense import dense_term
from zoo.gym.delta.codecs.options import Coding, Dense, LowRank, form_of
from zoo.gym.delta.file.header import Base, DeltaHeader
from zoo.gym.delta.file.terms import LowRankTerm, TensorTerms, Term
from zoo.gym.delta.file.writer import file_bytes
from zoo.gym.delta.planning.sizes import payload_bytes

RANK = 16

FORMS: dict[str, tuple[Coding, str]] = {
    "1 bit": (Dense("sign"), ""),
    "int4": (Dense("int", bits=4), "--bits 4"),
    "int2": (Dense("int", bits=2), "--bits 2"),
    "ternary": (Dense("ternary"), "--codec ternary"),
    "lowrank 2 bit": (LowRank("codes2"), ""),
    "lowrank 1 bit": (LowRank("sign"), "--bits 1"),
}
"""Codings of all linear layers by name, with the options of `delta create` for them."""

WHOLE = "1 bit, all tensors"
"""The dense delta of all tensors: the embedding as signs, and the norms uncompressed."""


@dataclass(frozen=True)
class Planned:
    """The size of one kind of delta.

    Attributes:
        name: one of `FORMS`, or `WHOLE`.
        options: the options of `zoo-gym delta create`.
        header: the header of such a file, without recipe and quality.
        payload_bytes: the size of all parts.
        file_bytes: the size of the file.
    """

    name: str
    options: str
    header: DeltaHeader
    payload_bytes: int
    file_bytes: int


def plan_shapes(
    linear: Mapping[str, tuple[int, int]],
    whole: list[TensorTerms],
    base_id: str,
    *,
    rank: int = RANK,
) -> list[Planned]:
    """Returns the size of each kind of delta, the largest first.

    Args:
        linear: the shapes of the base's linear layers, [out, in].
        whole: the terms of all tensors.
        base_id: the base's name in the header.
        rank: the rank of low-rank deltas.
    """
    planned = [
        _planned(
            name,
            options,
            base_id,
            coding,
            [
                TensorTerms(name=tensor, shape=shape, terms=(term_of(coding, rank),))
                for tensor, shape in linear.items()
            ],
        )
        for name, (coding, options) in FORMS.items()
    ]
    planned.append(_planned(WHOLE, "", base_id, Dense("sign"), whole))
    return sorted(planned, key=lambda plan: -plan.payload_bytes)


def term_of(coding: Coding, rank: int) -> Term:
    """Returns the term of a matrix with this coding.

    Raises:
        ValueError: a sparse coding, whose size depends on the values.
    """
    if isinstance(coding, LowRank):
        return LowRankTerm(rank=rank, A=coding.codec, B=coding.codec)
    return dense_term(coding)


def _planned(
    name: str, options: str, base_id: str, coding: Coding, tensors: list[TensorTerms]
) -> Planned:
    header = header_for(base_id, coding, tensors)
    return Planned(name, options, header, payload_bytes(header.tensors), file_bytes(header))


def header_for(base_id: str, coding: Coding, tensors: list[TensorTerms]) -> DeltaHeader:
    """Returns the header of a planned delta, without recipe and quality."""
    from zoo.core import __version__

    return DeltaHeader(
        form=form_of(coding),
        base=Base(identity="0" * 64, id=base_id, revision=None),
        tensors=tuple(sorted(tensors, key=lambda tensor: tensor.name)),
        recipe={},
        seed=None,
        data=None,
        privacy=None,
        tool=f"zoo-gym {__version__}",
        quality=None,
    )
