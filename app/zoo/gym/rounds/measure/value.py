"""What each contribution is worth: its part of the gain along the way from base to result.

Aumann-Shapley: with c_i the part of contribution i in the result (their sum is the result), its
value is the scalar product of c_i and minus the mean gradient of the held-out loss on the way. Two
points of Gauss-Legendre give the mean: exact for a loss that is a cubic along the way. Values add
up to the gain, and a contribution split into two or merged with another earns the same.

For rules that work column by column the parts are taken to be equal parts of those that count.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.aggregate import Chosen
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.measure.losses import Meter, parameter_names
from zoo.gym.signing import PublicKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Gradient = Mapping[str, NDArray[np.float32]]

POINTS = ((1 - 1 / sqrt(3)) / 2, (1 + 1 / sqrt(3)) / 2)
"""Where on the way from base to result the gradient is taken."""


def values(meter: Meter, chosen: Chosen, result: Path, factor: float) -> dict[PublicKey, float]:
    """Returns the value of each contribution, in nats of the held-out loss.

    Args:
        meter: the base and the held-out rows.
        chosen: the contributions and their parts.
        result: the file of the result.
        factor: what the re-fit multiplied it by.

    Raises:
        InputError: a tensor of the round is no parameter of its own in the loaded model.
    """
    gradient = mean_gradient(meter, chosen, result)
    worth = values_of(gradient, chosen.contributions, chosen.selection.shares)
    pairs = zip(chosen.collected.keys, worth, strict=True)
    return {key: factor * value for key, value in pairs}


def values_of(
    gradient: "Gradient", contributions: Contributions, shares: Sequence[float]
) -> list[float]:
    """Returns minus the scalar product of the mean gradient and each contribution's part.

    Args:
        gradient: by tensor, [columns].
        contributions: in any form.
        shares: the part of each in the result.
    """
    import numpy as np

    products = np.zeros(contributions.count)
    for tensor, start, rows in contributions.columns():
        part = gradient[tensor][start : start + rows[0].size].astype(np.float64)
        products += [part @ row for row in rows]
    pairs = zip(products.tolist(), shares, strict=True)
    return [-share * product for product, share in pairs]


def mean_gradient(meter: Meter, chosen: Chosen, result: Path) -> "Gradient":
    """Returns the mean gradient on the way from base to result, [columns] by tensor."""
    import numpy as np

    names = parameter_names(meter.base)
    wanted = {tensor.name for tensor in chosen.state.manifest.tensors}
    found: dict[str, NDArray[np.float32]] = {}
    for point in POINTS:
        for name, gradient in meter.gradient(result, point):
            tensor = names.get(name, "")
            if tensor in wanted:
                part = gradient.reshape(-1) / np.float32(len(POINTS))
                found[tensor] = found[tensor] + part if tensor in found else part
    if missing := sorted(wanted - found.keys()):
        raise InputError(
            f"tensor {missing[0]!r}: expected a parameter of its own, got one that the loaded "
            "model joins with others: contributions to it cannot be valued"
        )
    return found
