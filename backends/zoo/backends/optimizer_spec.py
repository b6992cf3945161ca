"""The optimizer over the trained parameters, and what single optimizers need besides.

A value that no engine could follow is refused when the object is made.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from zoo.backends.requirements import are_names, require, require_rate

ELEMENTWISE = ("adamw", "lion", "sgd")
"""The optimizers that change each value by itself, and so can step shares of a matrix."""

Optimizer = Literal[
    "adamw",
    "muon",
    "adam_mini",
    "lion",
    "adafactor",
    "sgd",
    "galore",
    "apollo",
    "apollo_mini",
    "badam",
    "adamw_8bit",
    "paged_adamw_8bit",
    "paged_adamw_32bit",
]
"""The names of optimizers; an engine refuses those that it lacks."""

OPTIMIZERS: tuple[str, ...] = get_args(Optimizer)

APOLLO = ("apollo", "apollo_mini")
"""The two forms of APOLLO: one scale for each channel, or one for a matrix, of rank 1."""

PROJECTED = ("galore", *APOLLO)
"""The optimizers that keep averages of projected gradients."""

IN_LIBRARY = ("adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit")
"""The optimizers that need bitsandbytes, and its devices."""

SIDES = ("svd", "random")
SHARED = ("channel", "tensor")
ORDERS = ("ascending", "descending", "random", "fixed")


@dataclass(frozen=True)
class ParameterGroup:
    """Trained parameters with their own learning rate or weight decay.

    Attributes:
        suffix: the group contains every trained parameter whose canonical name ends with it.
        lr_scale: the factor for the learning rate.
        weight_decay: by default the optimizer's; one of its own also decays vectors.

    Raises:
        ValueError: a number is negative or not finite.
    """

    suffix: str
    lr_scale: float = 1.0
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        for name in ("lr_scale", "weight_decay"):
            require_rate(name, getattr(self, name))


@dataclass(frozen=True)
class ProjectionSpec:
    """How gradients of matrices are projected to a low rank (GaLore, APOLLO).

    Attributes:
        rank: of the projected gradients, at most the smaller side of a matrix.
        interval: the steps after which there is a new projection.
        scale: the factor of GaLore's updates; APOLLO's is its root.
        targets: names of modules whose matrices are projected, or `all-linear`: those of blocks.
        kind: `svd`, the gradient's largest singular vectors, or `random` (APOLLO alone).
        scaling: APOLLO scales each `channel` of a gradient, or the whole `tensor`.
        seed: of random projections.

    Raises:
        ValueError: a value is out of its range.
    """

    rank: int = 16
    interval: int = 200
    scale: float = 1.0
    targets: tuple[str, ...] = ("all-linear",)
    kind: Literal["svd", "random"] = "svd"
    scaling: Literal["channel", "tensor"] = "channel"
    seed: int = 0

    def __post_init__(self) -> None:
        require("rank", self.rank, "1 or more", valid=self.rank >= 1)
        require("interval", self.interval, "1 or more", valid=self.interval >= 1)
        positive = math.isfinite(self.scale) and self.scale > 0
        require("scale", self.scale, "a number above 0", valid=positive)
        require("targets", self.targets, "a tuple of names", valid=are_names(self.targets))
        require("kind", self.kind, " or ".join(SIDES), valid=self.kind in SIDES)
        require("scaling", self.scaling, " or ".join(SHARED), valid=self.scaling in SHARED)


@dataclass(frozen=True)
class BlockSpec:
    """In which order BAdam trains the blocks of a model, one at a time.

    Attributes:
        order: `ascending` and `descending` by place, `random` once each round, or `fixed`: one.
        interval: the steps that each is trained before the next one.
        start: the place of the first one, from 0; None: the first in that order.
        seed: of random orders.

    Raises:
        ValueError: a value is out of its range.
    """

    order: Literal["ascending", "descending", "random", "fixed"] = "ascending"
    interval: int = 50
    start: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require("order", self.order, " or ".join(ORDERS), valid=self.order in ORDERS)
        require("interval", self.interval, "1 or more", valid=self.interval >= 1)
        is_valid = self.start is None or self.start >= 0
        require("start", self.start, "0 or more", valid=is_valid)


NO_PROJECTION, NO_TURNS = ProjectionSpec(), BlockSpec()
"""The values of specifications that an optimizer does not read."""


@dataclass(frozen=True)
class OptimizerSpec:
    """The optimizer over the trained parameters.

    Attributes:
        weight_decay: for matrices only, unless their group has its own.
        groups: each trained parameter belongs to the first group with a matching suffix, or none.
        name: one of `OPTIMIZERS`.
        projection: read by those of `PROJECTED`.
        blocks: read by badam.

    Raises:
        ValueError: the weight decay is negative or not finite, or no optimizer has that name, or
            another than apollo is to project at random, or apollo_mini to another rank than 1.
    """

    weight_decay: float = 0.0
    groups: tuple[ParameterGroup, ...] = ()
    name: str = "adamw"
    projection: ProjectionSpec = NO_PROJECTION
    blocks: BlockSpec = NO_TURNS

    def __post_init__(self) -> None:
        require("name", self.name, " or ".join(OPTIMIZERS), valid=self.name in OPTIMIZERS)
        require_rate("weight_decay", self.weight_decay)
        projection = self.projection
        drawn = self.name in APOLLO or projection.kind == "svd"
        require("kind", projection.kind, f"svd with {self.name}", valid=drawn)
        read = self.name in PROJECTED or projection == NO_PROJECTION
        require("projection", self.name, " or ".join(PROJECTED), valid=read)
        taken = self.name == "badam" or self.blocks == NO_TURNS
        require("blocks", self.name, "badam", valid=taken)
