"""The factors of stacked experts, for each matrix of the base's files.

transformers stacks the experts of a layer when it loads them; most files have a matrix for each.
peft adapts a stack as one parameter (`target_parameters`), with one A and one B for all experts.
Their factors are divided into those of the files' matrices, and joined to load them. Left out: the
stacks that the files themselves have, and those whose rows are the inputs.

Legend: E experts, R rank, I inputs, O outputs of all matrices of an expert.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.gym.delta.reading.weights import Weights, parts_of
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Parts

Factors: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.float32]]"
"""A and B."""


@dataclass(frozen=True)
class Piece:
    """Where a matrix is in a stack.

    Attributes:
        expert: the number of its expert.
        experts: E.
        rows: its outputs among the O of the expert.
    """

    expert: int
    experts: int
    rows: slice


def pieces(parts: "Parts", base: Weights) -> Iterator[tuple[str, Piece]]:
    """Yields the matrices of a stack, and where they are in it."""
    for expert, names in enumerate(parts):
        start = 0
        for name in names:
            stop = start + base.shape(name)[0]
            yield name, Piece(expert, len(parts), slice(start, stop))
            start = stop


def stack_shape(parts: "Parts", base: Weights) -> tuple[int, int]:
    """Returns O and I of a stack."""
    return sum(base.shape(name)[0] for name in parts[0]), base.shape(parts[0][0])[1]


def wrappers(parameters: Iterable[str]) -> dict[str, str]:
    """Returns the parameters by the names of peft's layers for them.

    Args:
        parameters: in the model's order; peft nests those of one module, the first innermost.

    >>> wrappers(["experts.gate_up_proj", "experts.down_proj"])
    {'experts': 'experts.down_proj', 'experts.base_layer': 'experts.gate_up_proj'}
    """
    of_module: dict[str, list[str]] = {}
    for parameter in parameters:
        of_module.setdefault(parameter.rpartition(".")[0], []).insert(0, parameter)
    return {
        module + ".base_layer" * depth: parameter
        for module, inside in of_module.items()
        for depth, parameter in enumerate(inside)
    }


def beside_experts(parts: "Mapping[str, Parts]") -> "dict[str, Parts]":
    """Returns the parameters of blocks with stacked experts: these, routers, shared experts.

    peft takes the names of such layers for those of experts, and routers are no linear layers: an
    adapter has all of them as parameters.
    """
    stacks = [name for name, tensors in parts.items() if sum(map(len, tensors)) > 1]
    blocks = tuple({f"{_numberless(name).rsplit('.', 2)[0]}." for name in stacks})
    return {name: parts[name] for name in parts if _numberless(name).startswith(blocks)}


def targeted_parameters(config: Mapping[str, Any], base: Weights, where: str) -> "dict[str, Parts]":
    """Returns the parameters that an adapter targets, in the model's order.

    Args:
        config: its settings.
        base: the base's files.
        where: the file of the settings, for error messages.

    Raises:
        InputError: a delta cannot change one of them.
    """
    targets = config.get("target_parameters") or []
    parts = parts_of(base) if targets else {}
    ends = tuple(f".{target}" for target in targets)
    chosen = {name: parts[name] for name in parts if name in targets or name.endswith(ends)}
    carried = beside_experts(parts)
    for parameter, tensors in chosen.items():
        names = [name for expert in tensors for name in expert]
        if not names or any(len(base.shape(name)) != 2 for name in names):
            raise InputError(
                f"{where}: target_parameters: {parameter!r}: expected experts that the files of "
                f"{base.source} store one by one, got a stack, which no delta carries",
                hint="adapt the linear layers alone: target_modules",
                code="delta.stacked_experts",
            )
        if parameter not in carried:
            raise InputError(
                f"{where}: target_parameters: expected stacked experts and what is beside them, "
                f"got {parameter!r}",
                hint="name linear layers in target_modules",
                code="delta.adapter_not_supported",
            )
    return chosen


def joined(parts: "Parts", base: Weights, factors: "Mapping[str, Factors]") -> Factors:
    """Returns A [E R, I] and B [O, R E] of a stack.

    Each matrix of an expert has components of its own, as the codes of a shared A may differ.

    Args:
        parts: the matrices of the stack.
        base: the base's files.
        factors: A [r, I] and B [r, rows] of those that change.
    """
    import numpy as np

    rows, columns = stack_shape(parts, base)
    ranks = [
        max(len(factors[name][0]) if name in factors else 0 for name in names)
        for names in zip(*parts, strict=True)
    ]
    A_ERI = np.zeros((len(parts), sum(ranks), columns), np.float32)
    B_ORE = np.zeros((rows, sum(ranks), len(parts)), np.float32)
    for number, (name, piece) in enumerate(pieces(parts, base)):
        if name in factors:
            A, B = factors[name]
            start = sum(ranks[: number % len(ranks)])
            A_ERI[piece.expert, start : start + len(A)] = A
            B_ORE[piece.rows, start : start + len(A), piece.expert] = B.T
    return A_ERI.reshape(-1, columns), B_ORE.reshape(rows, -1)


def _numberless(name: str) -> str:
    return re.sub(r"\.\d+\.", ".*.", name)
