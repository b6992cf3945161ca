"""Regular expressions of strangers, run over names with a limit of time.

An adapter's config may name modules by an expression, and a few characters of one can keep Python
busy for years. Expressions without repetition run here at once; any other runs in a process of its
own, which is ended when its time is up. What they match is what `re` matches: nothing is rewritten.
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
"""How an expression is used, the expression of a stranger, and that within ours."""

LIMIT_S = 5.0
MOST_CHARACTERS = 4000

_PLAIN = re.compile(r"\^?(?:[\w|-]|\\?\.|\\d)*\$?", re.ASCII)
"""Names, dots and alternatives: nothing that repeats, so nothing that runs away."""

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
    """Says whether an expression cannot take long, whatever it meets."""
    return len(pattern) <= MOST_CHARACTERS and _PLAIN.fullmatch(pattern) is not None


def find(jobs: Sequence[Job], names: Sequence[str], where: str) -> list[list[bool] | None]:
    """Returns for each job which of the names it matches, or None where it is no expression.

    Raises:
        InputError: the jobs take too long, or one of them is too long to be read.
    """
    results: list[list[bool] | None] = [None] * len(jobs)
    slow: list[int] = []
    for place, (how, stranger, pattern) in enumerate(jobs):
        if len(stranger) > MOST_CHARACTERS:
            raise InputError(
                f"{where}: expected expressions of at most {MOST_CHARACTERS} characters, "
                f"got {len(stranger)}"
            )
        if is_plain(stranger):
            test = getattr(re.compile(pattern), how)
            results[place] = [test(name) is not None for name in names]
        else:
            slow.append(place)
    found = _in_child([(jobs[place][0], jobs[place][2]) for place in slow], names)
    if found is None:
        raise InputError(
            f"{where}: {jobs[slow[0]][1]!r}: expected an expression that is matched in "
            f"{LIMIT_S:g} s, got one that takes longer",
            hint="name the modules in a list",
        )
    for place, result in zip(slow, found, strict=True):
        results[place] = result
    return results


def _in_child(jobs: list[tuple[How, str]], names: Sequence[str]) -> list[list[bool] | None] | None:
    """Runs expressions in a process; None where its time is up."""
    if not jobs:
        return []
    command = [sys.executable, "-I", "-S", "-c", _CHILD]
    given = json.dumps([jobs, list(names)]).encode()
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT_S)  # noqa: PLW1510
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:  # without memory, say: it is not run here either
        return None
    answer: list[list[bool] | None] = json.loads(done.stdout)
    return answer
