"""A divided computation gives the bytes of one process, whatever the tasks are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tests.gym.rounds.compute.divided_parts import DIGESTS, TENSORS, parts_of
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.on_ray import (
    Compute,
    Groups,
    Job,
    Part,
    Run,
    Tasks,
    compute_task,
    groups_of,
)
from zoo.gym.rounds.encodings import Floats, Piece
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import AggregationMethod, Rule

NAMES = [tensor.name for tensor in TENSORS]
SIZES = {tensor.name: tensor.size for tensor in TENSORS}
RULES = {
    "default": Rule(AggregationMethod.BYZANTINE_ROBUST, 2),
    "columns": Rule(AggregationMethod.TRIMMED_MEAN, 2),
    "median": Rule(AggregationMethod.MEDIAN, 2),
    "bulyan": Rule(AggregationMethod.BULYAN, 1),
    "norm clip": Rule(AggregationMethod.NORM_CLIP),
}


@dataclass(frozen=True)
class Computing:
    """Computes a task of contributions in a form."""

    form: str

    def __call__(self, job: Job, names: Sequence[str]) -> Part:
        rows = [DIGESTS.index(digest) for digest in job.digests]
        return compute_task(job, parts_of(self.form, names).take(rows), threads=1)


def here(compute: Compute) -> Run:
    """Returns what runs tasks in this process."""

    def run(job: Job, groups: Groups) -> Iterator[Part]:
        return (compute(job, names) for names in groups)

    return run


def divided(form: str, columns: int = 3000, run: Run | None = None) -> Tasks:
    return Tasks(groups_of(TENSORS, columns), SIZES, run or here(Computing(form)))


def whole(form: str, rule: Rule) -> tuple[bytes, bytes]:
    """Returns Gram matrix and result as one process computes them."""
    contributions = parts_of(form, NAMES)
    selection = select(rule, contributions, threads=1)
    return contributions.gram(threads=1).tobytes(), _bytes(combine(selection, contributions))


def by_tasks(tasks: Tasks, form: str, rule: Rule) -> tuple[bytes, bytes]:
    gram = tasks.gram(DIGESTS)
    selection = select(rule, parts_of(form, NAMES), gram=gram, threads=1)
    return gram.tobytes(), _bytes(tasks.combined(selection, DIGESTS))


def _bytes(pieces: Iterator[Piece]) -> bytes:
    return b"".join(piece.values.tobytes() for piece in pieces)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("form", ["signs", "lowrank", "float"])
def test_tasks_give_the_bytes_of_one_process(form: str, rule: Rule) -> None:
    assert by_tasks(divided(form), form, rule) == whole(form, rule)


def test_tasks_give_the_majority_of_signs() -> None:
    rule = Rule(AggregationMethod.MAJORITY)
    assert by_tasks(divided("signs"), "signs", rule) == whole("signs", rule)


def test_the_size_of_tasks_changes_no_byte() -> None:
    products = [divided("float", columns).gram(DIGESTS) for columns in (1, 3000, 10**9)]
    assert all(np.array_equal(products[0], other) for other in products)


def test_parts_of_a_gram_matrix_add_up_in_128_bits() -> None:
    part = np.full((1, 1, 2), 2**64 - 1, np.uint64)  # -1
    job_parts = (part, part, np.array([[[3, 0]]], np.uint64))
    tasks = Tasks([], SIZES, lambda job, groups: iter(job_parts))
    assert tasks.gram(DIGESTS[:1]).tolist() == [[[1, 0]]]


def test_some_contributions_are_those_of_their_digests() -> None:
    rows = [1, 3, 4]
    expected = parts_of("float", NAMES).take(rows).gram(threads=1)
    assert np.array_equal(divided("float").gram([DIGESTS[row] for row in rows]), expected)


def test_overflowing_value_is_reported_with_its_tensor() -> None:
    def broken(job: Job, names: Sequence[str]) -> Part:
        parts = parts_of("float", names)
        assert isinstance(parts, Floats)
        if "layer.3" in names:
            parts.tensors["layer.3"][2][5] = np.nan
        return compute_task(job, parts)

    with pytest.raises(InputError, match=r"tensor 'layer.3'.*contribut"):
        divided("float", columns=1, run=here(broken)).gram(DIGESTS)


def test_tensors_are_grouped_in_order() -> None:
    groups = groups_of(TENSORS, 3000)
    assert [name for group in groups for name in group] == NAMES
    assert len(groups) == 3
