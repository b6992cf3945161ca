"""The terms that each form of a round has in a contribution's file."""

from typing import Literal

from zoo.gym.delta.codecs.dense import dense_term
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.file.header import ROUND_TOOL
from zoo.gym.delta.file.terms import LowRankTerm, RawTerm, Term
from zoo.gym.rounds.protocol.manifest import Form

SIGNS = Dense("sign", scale="matrix", zero="minus")
"""The coding of form signs: one scale for a tensor, and zeros count as minus."""

FACTORS: Literal["f32"] = "f32"
"""The codec of both factors of form lowrank."""

TOOL = ROUND_TOOL
"""What stands for the program in the header."""


def has_form(term: Term, form: Form) -> bool:
    """Returns whether a term is the one of a form."""
    match form:
        case "signs":
            return term == dense_term(SIGNS)
        case "lowrank":
            return isinstance(term, LowRankTerm) and term.A == term.B == FACTORS
        case "float":
            return isinstance(term, RawTerm)
        case "lessons":
            return False
