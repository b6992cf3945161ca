"""Codes of errors are words that a program may rely on."""

import importlib.util
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
FORM = re.compile(r"[a-z_]+\.[a-z_]+")


@pytest.fixture(scope="module")
def codes() -> ModuleType:
    """docs/reference/error_codes.py as a module."""
    spec = importlib.util.spec_from_file_location("error_codes", REFERENCE / "error_codes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_code_names_its_room_and_a_reason(codes: ModuleType) -> None:
    named = [error for error in codes.raised() if error.code is not None]
    assert [
        error
        for error in named
        if not (FORM.fullmatch(error.code) and error.code.startswith(f"{error.room}."))
    ] == []


def test_a_code_stands_for_one_class_of_errors(codes: ModuleType) -> None:
    classes: defaultdict[str, set[str]] = defaultdict(set)
    for error in codes.raised():
        if error.code is not None:
            classes[error.code].add(error.kind)
    assert {code: kinds for code, kinds in classes.items() if len(kinds) > 1} == {}


def test_every_error_has_a_code(codes: ModuleType) -> None:
    assert [error.place for error in codes.raised() if error.code is None] == []
