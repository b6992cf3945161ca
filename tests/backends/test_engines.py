"""An engine that lacks a method of the contract is refused when it is loaded, by that name."""

import sys
from types import ModuleType
from typing import Any

import pytest

import zoo.backends
from tests.codes import raises
from zoo.backends import engine_class
from zoo.backends.base import Backend
from zoo.backends.torch.backend import TorchBackend
from zoo.backends.torch.policy import TorchPolicy


def lacking(kind: type, *names: str) -> Any:
    """A copy of a class, abstract again in some of its methods."""
    copied: Any = type(f"Toy{kind.__name__}", (kind,), {})
    copied.__abstractmethods__ = frozenset(names)
    return copied


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("toy_engine")
    monkeypatch.setitem(sys.modules, "toy_engine", module)
    monkeypatch.setitem(zoo.backends.ENGINES, "toy", "toy_engine:Engine")
    return module


def test_an_engine_that_lacks_a_method_is_refused_by_its_name(toy: ModuleType) -> None:
    toy.Engine = lacking(TorchBackend, "free_bytes")  # type: ignore[attr-defined]
    with raises("backends.incomplete_engine", r"lacks ToyTorchBackend\.free_bytes: expected"):
        engine_class("toy")


def test_so_is_one_whose_policies_lack_a_method(toy: ModuleType) -> None:
    class Engine(TorchBackend):
        policy = lacking(TorchPolicy, "differentiate", "reopen")

    toy.Engine = Engine  # type: ignore[attr-defined]
    expected = r"lacks ToyTorchPolicy\.differentiate, ToyTorchPolicy\.reopen: expected"
    with raises("backends.incomplete_engine", expected):
        engine_class("toy")


def test_an_engine_written_from_nothing_is_given_the_whole_list(toy: ModuleType) -> None:
    class Engine(Backend):
        pass

    toy.Engine = Engine  # type: ignore[attr-defined]
    with raises("backends.incomplete_engine") as refused:
        engine_class("toy")
    assert all(
        f"Engine.{name}" in refused.value.message
        for name in ("load", "free_bytes", "choose_precision", "parameter_parts", "policy")
    )


def test_every_engine_of_the_table_has_all_methods() -> None:
    for name in zoo.backends.ENGINES:
        assert issubclass(engine_class(name), Backend)
