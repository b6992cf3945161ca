"""Contributions that no round may take: refused before anything leaves, the storage unchanged."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.gym.rounds.refused.conftest import (
    DOWN,
    UP,
    Person,
    check_refused,
    contribute,
    files,
    some_change,
    start,
    tensors,
    tuned,
    write_weights,
)


def changed(value: float) -> Callable[[Path], object]:
    """Returns what writes a fine-tune with one value."""

    def write(folder: Path) -> None:
        change = some_change(1)
        change[UP][1, 2] = value
        tuned(folder, change)

    return write


def with_another_tensor(folder: Path) -> None:
    tuned(folder, some_change(1) | {DOWN: np.ones((12, 4), np.float32)})


def without_a_tensor(folder: Path) -> None:
    write_weights(folder, {DOWN: tensors(0)[DOWN]})


def of_another_shape(folder: Path) -> None:
    write_weights(folder, tensors(0) | {UP: np.ones((4, 10), np.float32)})


def of_a_quarter_of_zeros(folder: Path) -> None:
    change = some_change(1)
    change[UP][0] = 0
    tuned(folder, change)


def of_nothing(folder: Path) -> None:
    tuned(folder, {})


SOURCES: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "NaN": (
        changed(float("nan")),
        ("--form", "float"),
        "expected finite values, got nan at [1, 2]",
    ),
    "infinity": (changed(float("inf")), ("--form", "float"), "expected finite values, got inf"),
    "NaN as a sign": (changed(float("nan")), (), "expected finite values, got nan"),
    "3e38": (changed(3e38), ("--form", "float"), "raw: expected values up to 1000, got 3e+38"),
    "a scale of 3e38": (changed(3e38), (), "scale: expected values up to 1, got 6.25e+36"),
    "another tensor": (with_another_tensor, (), "expected changes of the round's tensors only"),
    "a missing tensor": (without_a_tensor, (), "is in base but not in source"),
    "another shape": (of_another_shape, (), "expected"),
    "a quarter of zeros": (of_a_quarter_of_zeros, (), "changes of most weights for a round of"),
    "no change": (of_nothing, (), "expected a fine-tune, got no change from the base"),
    "weights for factors": (
        changed(0.5),
        ("--form", "lowrank"),
        "expected factors for a round of form lowrank, got weights",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SOURCES)
def test_a_fine_tune_that_cannot_be_is_not_committed(case: str, person: Person) -> None:
    write, more, said = SOURCES[case]
    start(person, *more)
    write(Path("source"))
    before = files(Path("round"))
    check_refused(contribute(person, "ann", "source"), 2, said)
    assert files(Path("round")) == before


def test_another_base_is_refused(person: Person) -> None:
    start(person)
    write_weights(Path("other"), tensors(9))
    before = files(Path("round"))
    words = ("--round", "round", "--base", "other", "--send")
    found = person("ann", "round", "contribute", "ann", *words)
    check_refused(found, 2, "expected the base base of the round, got another")
    assert files(Path("round")) == before


@pytest.mark.slow
def test_who_is_late_or_strange_or_changes_the_mind_is_refused(person: Person) -> None:
    start(person)
    for who in ("ann", "ben"):
        assert contribute(person, who).code == 0
    cases = [
        (contribute(person, "ann", "eve"), 2, "expected the contribution that you committed to"),
        (person("ann", "round", "reveal", "--round", "round", "--send"), 4, "expected phase rev"),
    ]
    assert person("maker", "round", "take", "--close").code == 0
    before = files(Path("round"))
    cases += [
        (contribute(person, "eve"), 4, "expected phase commit, got reveal"),
        (
            person("eve", "round", "reveal", "--round", "round", "--send"),
            2,
            "a commitment of your key",
        ),
        (person("eve", "round", "take", "--round", "round"), 2, "the key of the log's writer"),
        (person("maker", "round", "aggregate", "--round", "round"), 4, "expected phase compute"),
    ]
    for found, code, said in cases:
        check_refused(found, code, said)
    assert files(Path("round")) == before


@pytest.mark.slow
def test_without_send_nothing_leaves(person: Person) -> None:
    start(person)
    before = files(Path("round"))
    found = person("ann", "round", "contribute", "ann", "--round", "round", "--base", "base")
    assert (found.code, "nothing was sent" in found.stderr) == (0, True)
    assert files(Path("round")) == before
