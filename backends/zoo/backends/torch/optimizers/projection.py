"""Projections of a gradient to a low rank, along its smaller side (arXiv:2403.03507, section 3).

Legend: M rows, N columns, R rank, S the smaller of M and N, L the larger one.
"""

import math
import zlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from zoo.backends.base import OptimizerSpec, ProjectionSpec
from zoo.backends.torch.optimizers.blocks import split_linear
from zoo.core.errors import InputError

ALL = ("all-linear",)


def split_projected(
    parameters: Mapping[str, nn.Parameter], targets: tuple[str, ...], key: str
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Returns the matrices whose gradients are projected, and the other parameters.

    Args:
        parameters: the trained parameters, by name.
        targets: names of modules, or `all-linear`.
        key: the setting that has them.

    Raises:
        InputError: a name matches no trained matrix.
    """
    chosen = split_linear(parameters)[0] if targets == ALL else _named(parameters, targets, key)
    if not chosen:
        raise InputError(
            f"{key}: expected trained matrices in the blocks of the model, got none",
            code="torch.no_trained_blocks",
        )
    return chosen, {name: p for name, p in parameters.items() if name not in chosen}


def check_projected(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> None:
    """Checks that the trained matrices have those whose gradients are to be projected.

    Raises:
        InputError: a name matches none.
    """
    key = "galore_target" if spec.name == "galore" else "apollo_target"
    split_projected(parameters, spec.projection.targets, key)


def _named(
    parameters: Mapping[str, nn.Parameter], targets: tuple[str, ...], key: str
) -> dict[str, nn.Parameter]:
    matrices = {name: p for name, p in parameters.items() if p.dim() == 2}
    for target in targets:
        if not any(is_in(target, name) for name in matrices):
            parts = {part for name in matrices for part in name.split(".")[:-1]}
            endings = ", ".join(sorted(part for part in parts if not part.isdigit()))
            raise InputError(
                f"{key}: expected modules with trained matrices, got {target!r}",
                hint=f"this model has {endings}",
                code="backends.no_such_module",
            )
    return {name: p for name, p in matrices.items() if any(is_in(t, name) for t in targets)}


def is_in(target: str, name: str) -> bool:
    """Returns whether a parameter belongs to a module of that name."""
    return f".{target}." in f".{name}"


def new_projection(gradient_MN: Tensor, spec: ProjectionSpec, name: str, number: int) -> Tensor:
    """Returns a projection of the smaller side of a gradient, `[R, S]`.

    Args:
        gradient_MN: the gradient.
        spec: its rank, and its kind: orthonormal rows, the largest singular vectors of the
            gradient; or random ones, normal with variance 1/R (arXiv:2412.05270, section 4.2).
        name: of the parameter; each draws others.
        number: of the projection, from 0.
    """
    rank = min(spec.rank, *gradient_MN.shape)
    if spec.kind == "random":
        seed = zlib.crc32(f"{spec.seed} {number} {name}".encode())
        draw = torch.Generator().manual_seed(seed)
        drawn_RS = torch.randn(rank, min(gradient_MN.shape), generator=draw) / math.sqrt(rank)
        return drawn_RS.to(gradient_MN)
    left_MS, _, right_SN = torch.linalg.svd(gradient_MN, full_matrices=False)
    chosen_RS: Tensor = right_SN[:rank] if is_tall(gradient_MN) else left_MS[:, :rank].T
    return chosen_RS.clone(memory_format=torch.contiguous_format)


def is_tall(gradient_MN: Tensor) -> bool:
    """Returns whether the columns are the smaller side, as of a square matrix."""
    return gradient_MN.shape[0] >= gradient_MN.shape[1]


def project(gradient_MN: Tensor, projection_RS: Tensor) -> Tensor:
    """Returns the projected gradient, `[M, R]` of a tall one and `[R, N]` of another."""
    if is_tall(gradient_MN):
        return gradient_MN @ projection_RS.T
    return projection_RS @ gradient_MN


def project_back(low: Tensor, projection_RS: Tensor, *, tall: bool) -> Tensor:
    """Returns a projected update in the shape of its parameter."""
    return low @ projection_RS if tall else projection_RS.T @ low
