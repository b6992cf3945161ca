"""Losses and gradients of a base plus a delta, in float32, and what contributions are worth.

A model folder is written for each delta and removed afterwards; the base is only read.

Values are Aumann-Shapley: with c_i the part of contribution i in the result (their sum is the
result), its value is the scalar product of c_i and minus the mean gradient of the held-out loss on
the way from base to result. Two points of Gauss-Legendre give the mean: exact for a loss that is a
cubic along the way. Values add up to the gain, and a contribution split into two or merged with
another earns the same. For rules that work column by column the parts are taken to be equal parts
of those that count.
"""

import re
import tempfile
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.delta.apply import apply_delta
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.rounds.arrays import F32
from zoo.gym.rounds.compute.aggregate import Chosen
from zoo.gym.rounds.encodings import Contributions
from zoo.gym.signing import PublicKey

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Policy, Stat
    from zoo.gym.data.units import Example

    Gradient = Mapping[str, F32]


@dataclass(frozen=True)
class Meter:
    """Measures deltas of a base on some rows.

    Attributes:
        rows: of held-out examples, each with learned tokens.
    """

    base: Path
    rows: "Sequence[Example]"

    def losses(self, delta: Path | None = None, *, scaled: float = 1.0) -> list[float]:
        """Returns the loss of each row in nats a token; it may be infinite or no number.

        Args:
            delta: its file; None measures the base.

        Raises:
            InputError: the delta does not fit the base, or its weights overflow.
            StorageError: the temporary folder cannot be written.
        """
        from zoo.gym.measure import row_nats

        with loaded(self.base, delta, scaled) as policy:
            nats = row_nats(policy, self.rows)
        return [sum_ / int(row.mask.sum()) for sum_, row in zip(nats, self.rows, strict=True)]

    def gradient(self, delta: Path | None, scaled: float) -> "Iterator[tuple[str, F32]]":
        """Yields the gradient of the mean of the rows' losses, by the parameters' names."""
        import numpy as np

        from zoo.gym.data.batches import collate, micro_batches
        from zoo.gym.data.units import alone, with_extra
        from zoo.gym.measure.held_out import MAX_BATCH_TOKENS

        share = 1 / len(self.rows)
        rows = [
            with_extra(row, SHARE, np.full(row.ids.shape, share / int(row.mask.sum()), np.float32))
            for row in self.rows
        ]
        with loaded(self.base, delta, scaled, train=True) as policy:
            for units in micro_batches(alone(rows), max_batch_tokens=MAX_BATCH_TOKENS):
                policy.accumulate(RowLoss(), collate(units), key=0)
            yield from policy.gradients()


SHARE = "share"
"""The name of the weight of each token in the mean of the rows' losses, [B, T]."""


class RowLoss:
    """The sum of -log p of the learned tokens, each times the share of its row."""

    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Only log-probabilities."""
        from zoo.backends.base import Stat

        return frozenset({Stat.LOGPROBS})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss in nats a token, the mean of the rows'."""
        from zoo.backends.base import Stat

        return -xp.sum(stats[Stat.LOGPROBS] * batch["mask"] * batch[SHARE]), {}


@contextmanager
def loaded(
    base: Path, delta: Path | None, scaled: float = 1.0, *, train: bool = False
) -> "Generator[Policy]":
    """Yields base plus delta, loaded in float32.

    Args:
        delta: a file; None for the base itself.
        train: whether gradients of all weights are needed.
    """
    from zoo.backends.base import LoadSpec
    from zoo.gym.engine import engine_for

    spec = LoadSpec(train="full" if train else None, dtype="f32")
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch, warnings.catch_warnings():
        # warnings about unused tensors are for the base itself, not for this copy
        warnings.filterwarnings("ignore", re.escape(scratch), GymWarning)
        folder = base
        if delta is not None:
            folder = apply_delta(
                delta, base=base, out=Path(scratch) / "model", scaled=scaled
            ).folder
        yield engine_for(folder).load(folder, spec)


POINTS = ((1 - 1 / sqrt(3)) / 2, (1 + 1 / sqrt(3)) / 2)
"""Where on the way from base to result the gradient is taken."""


def values(meter: Meter, chosen: Chosen, result: Path, factor: float) -> dict[PublicKey, float]:
    """Returns the value of each contribution, in nats of the held-out loss.

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

    from zoo.gym.engine import engine_for

    parameters = engine_for(meter.base).parameter_names(meter.base)
    names = {name: tensor for tensor, name in parameters.items()}
    tensors = {tensor.name for tensor in chosen.work.state.manifest.tensors}
    gradients: dict[str, F32] = {}
    for point in POINTS:
        for name, gradient in meter.gradient(result, point):
            tensor = names.get(name, "")
            if tensor in tensors:
                part = gradient.reshape(-1) / np.float32(len(POINTS))
                gradients[tensor] = gradients[tensor] + part if tensor in gradients else part
    if missing := sorted(tensors - gradients.keys()):
        raise InputError(
            f"tensor {missing[0]!r}: expected a parameter of its own, got one that the loaded "
            "model joins with others: contributions to it cannot be valued",
            code="rounds.joined_parameter",
        )
    return gradients
