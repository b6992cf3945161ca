"""Reads the unit tests of a row, and finds tests that any response would pass.

Tests are rows of MBPP (`test_list` of statements, `test_setup_code`, `test_imports`), of HumanEval
(`test` that defines `check`, and `entry_point`), or plain `tests`. Functions `test_*` without
parameters are called, as pytest does. Classes of `unittest` are refused.
"""

import ast
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import cast

from zoo.gym.rewards.code.checks import UselessTestsError, checks_anything, implied_calls, parsed
from zoo.gym.rewards.reward import Task

KEYS = ("test_list", "tests", "test")
"""The keys of tests; the first that a row has counts."""

_NEEDS = ("test_imports", "test_setup_code")


def has_tests(task: Task) -> bool:
    """Returns whether a row has text for tests, be it of use or not."""
    items = _items(_key_and_value(task)[1])
    return any(isinstance(source, str) and source.strip() for source in items)


def row_tests(task: Task) -> tuple[str, ...]:
    """Returns the tests of a row as pieces of source; the first contains what they need.

    Each piece checks something. It is empty for a row without tests, or with useless ones.
    """
    return _read(task)[0]


def problem_of(task: Task) -> str | None:
    """Returns what is wrong with the tests of a row, `no tests`; None if they can be run."""
    return _read(task)[1]


def _read(task: Task) -> tuple[tuple[str, ...], str | None]:
    key, value = _key_and_value(task)
    entry = task.metadata.get("entry_point")
    try:
        tests = _sources(key, value)
        if not tests:
            return (), "no tests"
        needs = [need for name in _NEEDS for need in _sources(name, task.metadata.get(name))]
        if entry is not None and not isinstance(entry, str):
            raise UselessTestsError("entry_point: not text")
    except UselessTestsError as error:
        return (), str(error)
    pieces, problem = _pieces(tests, tuple(needs), entry or "")
    return pieces, f"{key}: {problem}" if problem else None


def _key_and_value(task: Task) -> tuple[str, object]:
    pairs = ((key, task.metadata.get(key)) for key in KEYS)
    return next(((key, value) for key, value in pairs if value), (KEYS[0], None))


def _items(value: object) -> list[object]:
    """Returns the items of a list, which may be written as text: tables have no lists."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = json.loads(value)
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            value = ast.literal_eval(value.strip())
    if isinstance(value, list | tuple):
        return list(cast("Sequence[object]", value))
    return [] if value is None else [value]


def _sources(key: str, value: object) -> tuple[str, ...]:
    items = _items(value)
    for number, source in enumerate(items, 1):
        if not isinstance(source, str):
            raise UselessTestsError(f"{key}: item {number} is not text ({type(source).__name__})")
    return tuple(source for source in items if isinstance(source, str) and source.strip())


@lru_cache(maxsize=4096)
def _pieces(
    tests: tuple[str, ...], needs: tuple[str, ...], entry: str
) -> tuple[tuple[str, ...], str]:
    """Returns the pieces to run, and an empty text; or none, and the problem.

    What checks nothing, such as an import, goes with the next test that does.
    """
    pieces: list[str] = []
    waiting = list(needs)
    try:
        statements = [statement for test in tests for statement in parsed(test)]
        for test in (*tests, *implied_calls(statements, entry)):
            waiting.append(test)
            if checks_anything(parsed(test), statements):
                pieces.append("\n".join(waiting))
                waiting.clear()
        if not pieces:
            raise UselessTestsError("no assert is executed")
        pieces[-1] = "\n".join((pieces[-1], *waiting))
        for piece in pieces:
            parsed(piece)
    except UselessTestsError as error:
        return (), str(error)
    return tuple(pieces), ""
