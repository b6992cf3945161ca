"""The methods of merging, the options that each uses, and their defaults.

All are mergekit's. DARE rescales what it keeps to the same sum of magnitudes, as mergekit does, not
by 1 / density as in the paper; the expected change is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zoo.gym.errors import InputError

MethodName: TypeAlias = Literal[
    "linear", "slerp", "task_arithmetic", "ties", "dare_ties", "dare_linear"
]

DENSITY = 0.5
"""The share of a change's weights that is kept, where a method drops some."""


@dataclass(frozen=True)
class Method:
    """A method of merging.

    Attributes:
        name: mergekit's name.
        says: what the result is, for the card.
        source: the paper.
        of_changes: whether it adds changes to a base, and needs that.
        sparse: whether it drops weights, by `density`.
        random: whether it drops them at random, by `seed`.
        most: the most sources.
    """

    name: MethodName
    says: str
    source: str
    of_changes: bool = False
    sparse: bool = False
    random: bool = False
    most: int = 100


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("linear", "the weighted mean of the models", "arXiv:2203.05482"),
        Method("slerp", "a point on the arc between two models", "Shoemake 1985", most=2),
        Method(
            "task_arithmetic",
            "the base plus the weighted sum of the changes",
            "arXiv:2212.04089",
            of_changes=True,
        ),
        Method(
            "ties",
            "the base plus the weighted mean of the largest changes that agree in sign",
            "arXiv:2306.01708",
            of_changes=True,
            sparse=True,
        ),
        Method(
            "dare_ties",
            "the base plus the weighted sum of random parts of the changes that agree in sign",
            "arXiv:2311.03099",
            of_changes=True,
            sparse=True,
            random=True,
        ),
        Method(
            "dare_linear",
            "the base plus the weighted sum of random parts of the changes",
            "arXiv:2311.03099",
            of_changes=True,
            sparse=True,
            random=True,
        ),
    )
}
"""The methods by name."""


@dataclass(frozen=True)
class Settings:
    """What a merge computes.

    Attributes:
        method: the method.
        weights: one a source; of `linear` and `slerp` only their shares count.
        density: the share of each change that is kept; 1 for methods that drop none.
        seed: of the weights that are dropped at random.
    """

    method: Method
    weights: tuple[float, ...]
    density: float = 1.0
    seed: int = 0


def settings_of(
    name: str,
    count: int,
    weights: Sequence[float] | None = None,
    density: float | None = None,
    seed: int | None = None,
) -> Settings:
    """Returns the settings of a merge, and refuses what the method does not use.

    Args:
        name: the method.
        count: the number of sources.
        weights: one a source; None is 1 each.
        density: see `Settings`; None is 0.5 where it is used.
        seed: see `Settings`; None is 42 where it is used.

    Raises:
        InputError: a value is out of its range, or has no effect.
    """
    method = METHODS.get(name)
    if method is None:
        raise InputError(
            f"--method: expected one of {', '.join(METHODS)}, got {name!r}", code="merge.bad_method"
        )
    if not 2 <= count <= method.most:
        most = "2" if method.most == 2 else "2 or more"
        raise InputError(
            f"--method {name}: expected {most} sources, got {count}", code="merge.bad_count"
        )
    for option, value, uses in (("density", density, "sparse"), ("seed", seed, "random")):
        if value is not None and not getattr(method, uses):
            users = ", ".join(each.name for each in METHODS.values() if getattr(each, uses))
            raise InputError(
                f"--{option}: has no effect with --method {name}: expected one of {users}",
                code="merge.no_effect",
            )
    if density is not None and not 0 < density <= 1:
        raise InputError(
            f"--density: expected more than 0 and at most 1, got {density:g}",
            code="merge.bad_density",
        )
    kept = (DENSITY if density is None else density) if method.sparse else 1.0
    return Settings(method, _weights(method, count, weights), kept, 42 if seed is None else seed)


def _weights(method: Method, count: int, weights: Sequence[float] | None) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    if len(weights) != count:
        raise InputError(
            f"--weights: expected {count}, one a source, got {len(weights)}",
            code="merge.bad_weights",
        )
    if any(weight == 0 or not -100 <= weight <= 100 for weight in weights):
        raise InputError(
            "--weights: expected numbers other than 0, from -100 to 100",
            hint="leave out a source that is not to count",
            code="merge.bad_weights",
        )
    shares = not method.of_changes or method.name == "ties"
    if shares and any(weight < 0 for weight in weights):
        raise InputError(
            f"--weights: expected numbers above 0 with --method {method.name}",
            hint="--method task_arithmetic subtracts a change with a weight below 0",
            code="merge.bad_weights",
        )
    return tuple(map(float, weights))
