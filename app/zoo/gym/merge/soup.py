"""The greedy soup: sources are added one by one, and stay if the held-out loss falls.

arXiv:2203.05482, recipe 1, with the loss in place of the accuracy: the source with the least loss
comes first, the others in the order of their own. The result is the mean of those that stayed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import GymError, InputError
from zoo.gym.measure import held_out
from zoo.gym.merge.inputs import Input, refuse_unequal
from zoo.gym.merge.methods import settings_of
from zoo.gym.merge.run import compute, require_mergekit, written_inputs

if TYPE_CHECKING:
    from zoo.gym.data.units import Example


@dataclass(frozen=True)
class Mean:
    """What was measured: the sources of a mean, its held-out loss, and whether it was kept.

    Attributes:
        names: the sources.
        loss: nats per learned token.
        kept: whether the loss was below that of the mean before.
    """

    names: tuple[str, ...]
    loss: float
    kept: bool


Watch = Callable[[Mean], object]
"""Called with each mean after it was measured."""


def in_all(rows: "Sequence[Sequence[Example]]") -> "list[Example]":
    """Returns the rows that every source can be measured on: those that none of them learned.

    Args:
        rows: for each source the rows that it did not learn.

    Raises:
        InputError: there is none, or rows without a learned token.
    """
    others = [{_tokens(row) for row in each} for each in rows[1:]]
    first = rows[0] if rows else ()
    common = [row for row in first if all(_tokens(row) in each for each in others)]
    if not any(row.mask.any() for row in common):
        raise InputError(
            "--search: expected rows that no source was trained on, got none",
            hint="give some with --data",
            code="merge.no_rows",
        )
    return common


def _tokens(row: "Example") -> tuple[bytes, bytes]:
    return row.ids.tobytes(), row.mask.tobytes()


def greedy_soup(
    inputs: Sequence[Input], rows: "Sequence[Example]", out: Path, watch: Watch
) -> tuple[list[Input], list[Mean]]:
    """Returns the sources whose mean has the least held-out loss, and everything measured.

    Args:
        inputs: see `zoo.gym.merge.inputs.find_inputs`.
        rows: see `in_all`.
        out: where the result will be; models to measure are written beside it.
        watch: see `Watch`.

    Raises:
        InputError: the models cannot be merged, or one has no finite loss.
        GymError: no mean is better than the best source alone.
    """
    require_mergekit()
    with written_inputs(inputs, out) as folders:
        refuse_unequal(inputs, folders)
        losses = [_loss(folder, rows) for folder in folders]
        _refuse_not_finite(inputs, losses)
        order = sorted(range(len(inputs)), key=lambda index: losses[index])
        chosen, best = order[:1], losses[order[0]]
        means: list[Mean] = []

        def report(indexes: list[int], loss: float, *, kept: bool) -> None:
            names = tuple(inputs[index].name for index in indexes)
            means.append(Mean(names, loss, kept))
            watch(means[-1])

        for index in order:
            report([index], losses[index], kept=index == chosen[0])
        for index in order[1:]:
            wider = [*chosen, index]
            mean = folders[0].parent / f"mean-{len(means)}"
            compute(settings_of("linear", len(wider)), [folders[i] for i in wider], None, mean)
            loss = _loss(mean, rows)
            report(wider, loss, kept=loss < best)
            if loss < best:
                chosen, best = wider, loss
    if len(chosen) == 1:
        raise GymError(
            f"no mean is better than {inputs[chosen[0]].name} alone: nothing was written",
            code="merge.none_better",
        )
    return [inputs[index] for index in chosen], means


def _refuse_not_finite(inputs: Sequence[Input], losses: Sequence[float]) -> None:
    """Refuses a source without a loss: it could not be put in the order."""
    for item, loss in zip(inputs, losses, strict=True):
        if not isfinite(loss):
            raise InputError(
                f"{item.name}: expected a finite held-out loss, got {loss}: the numbers of the "
                "model overflow",
                hint="leave it out",
                code="merge.no_finite_loss",
            )


def _loss(folder: Path, rows: "Sequence[Example]") -> float:
    """Returns the held-out loss of a model folder, nats per learned token."""
    from zoo.backends.base import LoadSpec
    from zoo.gym.engine import engine_for

    policy = engine_for(folder).load(folder, LoadSpec(dtype="f32"))
    return held_out(policy, rows).loss
