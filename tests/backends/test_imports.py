"""Models are imported without collecting garbage, which is collected again behind it."""

import atexit
import gc
import sys
from collections.abc import Callable

import pytest

from zoo.backends.torch.files import imports


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What is called at the exit of a process that has not imported models yet."""
    calls: list[Callable[[], object]] = []
    monkeypatch.delitem(sys.modules, imports.MODELS, raising=False)
    monkeypatch.setattr(atexit, "register", calls.append)
    return calls


def test_no_garbage_is_collected_during_the_import(
    monkeypatch: pytest.MonkeyPatch, at_exit: list[Callable[[], object]]
) -> None:
    collects: list[bool] = []
    monkeypatch.setattr(imports, "import_module", lambda _: collects.append(gc.isenabled()))
    imports.import_models()
    assert (collects, gc.isenabled(), at_exit) == ([False], True, [gc.freeze])


@pytest.mark.usefixtures("at_exit")
def test_garbage_is_collected_after_an_import_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(imports, "import_module", fail)
    with pytest.raises(ImportError):
        imports.import_models()
    assert gc.isenabled()


def test_it_stays_off_for_a_program_that_collects_none(
    monkeypatch: pytest.MonkeyPatch, at_exit: list[Callable[[], object]]
) -> None:
    monkeypatch.setattr(imports, "import_module", lambda _: None)
    gc.disable()
    try:
        imports.import_models()
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert at_exit == [gc.freeze]
