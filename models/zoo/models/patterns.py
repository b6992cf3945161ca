"""Matches untrusted regular expressions against names within a time limit.

An adapter's config may select modules with an expression, and a few characters of one can keep
Python busy for years. Expressions without repetition run in this process; all others run in a child
process that is killed after the limit. The results are those of `re`: nothing is rewritten.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal, TypeAlias

from zoo.core.errors import InputError

How: TypeAlias = Literal["fullmatch", "match"]
Job: TypeAlias = tuple[How, str, str]
"""How an expression is used, the untrusted expression, and that inside ours."""

LIMIT_S = 5.0
MOST_CHARACTERS = 4000

_PLAIN = re.compile(r"\^?(?:[\w|-]|\\?\.|\\d)*\$?", re.ASCII)
"""Names, dots and alternatives: no repetition, so matching is fast."""

_CHILD = """
import json, re, sys
jobs, names = json.load(sys.stdin)
def found(how, pattern):
    try:
        test = getattr(re.compile(pattern), how)
    except (re.error, OverflowError, RecursionError):
        return None
    return [test(name) is not None for name in names]
json.dump([found(how, pattern) for how, pattern in jobs], sys.stdout)
"""


def is_plain(pattern: str) -> bool:
    """Returns whether an expression is fast on any input."""
    return len(pattern) <= MOST_CHARACTERS and _PLAIN.fullmatch(pattern) is not None


def find(jobs: Sequence[Job], names: Sequence[str], where: str) -> list[list[bool] | None]:
    """Returns for each job which of the names it matches, or None if it is invalid.

    Raises:
        InputError: the jobs take too long, or an expression is too long.
    """
    results: list[list[bool] | None] = [None] * len(jobs)
    slow: list[int] = []
    for index, (method, stranger, pattern) in enumerate(jobs):
        if len(stranger) > MOST_CHARACTERS:
            raise InputError(
                f"{where}: expected expressions of at most {MOST_CHARACTERS} characters, "
                f"got {len(stranger)}",
                code="models.pattern_too_long",
            )
        if is_plain(stranger):
            test = getattr(re.compile(pattern), method)
            results[index] = [test(name) is not None for name in names]
        else:
            slow.append(index)
    answers = _in_child([(jobs[index][0], jobs[index][2]) for index in slow], names)
    if answers is None:
        raise InputError(
            f"{where}: {jobs[slow[0]][1]!r}: expected an expression that matches within "
            f"{LIMIT_S:g} s, got one that takes longer",
            hint="list the names of the modules instead",
            code="models.pattern_too_slow",
        )
    for index, result in zip(slow, answers, strict=True):
        results[index] = result
    return results


def _in_child(jobs: list[tuple[How, str]], names: Sequence[str]) -> list[list[bool] | None] | None:
    """Runs expressions in a child process; returns None after the time limit."""
    if not jobs:
        return []
    command = [sys.executable, "-I", "-S", "-c", _CHILD]
    request = json.dumps([jobs, list(names)]).encode()
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=LIMIT_S)  # noqa: PLW1510
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:  # out of memory, for example: do not run it here either
        return None
    answer: list[list[bool] | None] = json.loads(done.stdout)
    return answer
