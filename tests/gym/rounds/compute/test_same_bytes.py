"""A result depends on its contributions alone: not on processors, threads, or tasks."""

import inspect
from collections.abc import Callable
from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from tests.gym.rounds.compute.test_dividing import RULES, by_tasks, divided, whole
from zoo.core import _core, available_isas

FORMS = ("signs", "lowrank", "float")
THREADS = (1, 2, 8)
COLUMNS = (1, 3000, 1 << 24)
"""Values of a task: a tensor each, two or three tensors, all of them."""


def parameters(kernel: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(kernel).parameters)


KERNELS = {
    name: kernel
    for name, kernel in vars(_core).items()
    if inspect.isbuiltin(kernel) and parameters(kernel)[-1:] == ("how",)
}
"""The functions whose last argument is an instruction set and a number of threads."""


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], set[str]]:
    """Makes these kernels compute as given, and returns the names of those that were called."""
    called: set[str] = set()

    def run_as(name: str, kernel: Callable[..., Any], how: tuple[str, int]) -> Any:
        def run(*words: Any) -> Any:
            called.add(name)
            return kernel(*words[:-1], how)

        return run

    def force(isa: str, threads: int) -> set[str]:
        for name, kernel in KERNELS.items():
            monkeypatch.setattr(_core, name, run_as(name, kernel, (isa, threads)))
        return called

    return force


def digest(found: tuple[bytes, bytes]) -> str:
    return sha256(found[0] + found[1]).hexdigest()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", ["default", "median"])
def test_instruction_sets_and_threads_give_the_same_bytes(
    form: str, rule: str, forced: Callable[[str, int], set[str]]
) -> None:
    found: set[str] = set()
    for isa, threads in product(available_isas(), THREADS):
        called = forced(isa, threads)
        found.add(digest(whole(form, RULES[rule])))
        assert called, "no kernel was forced"
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_size_of_tasks_gives_the_same_bytes(form: str) -> None:
    rule = RULES["default"]
    sizes = (divided(form, columns) for columns in COLUMNS)
    assert {digest(by_tasks(each, form, rule)) for each in sizes} == {digest(whole(form, rule))}
