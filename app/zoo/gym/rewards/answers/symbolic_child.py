"""A process that compares answers as mathematics; its argument is the time limit of one."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from zoo.gym.rewards.answers.expressions import (
    is_delimited,
    mathematics,
    only_expression,
    readings,
    same_notation,
    same_text,
    stated,
)
from zoo.gym.rewards.processes.serve import serve

MEMORY_BYTES = 4_000_000_000
"""Address space of a process: some powers take all memory within the time limit."""

_PARTS = ("answer", "statement", "text")


def prepare() -> Callable[[dict[str, Any]], Mapping[str, object]]:
    """Returns the function that compares one response."""
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    import math_verify

    if sys.platform not in {"win32", "darwin"}:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    def parse(text: str) -> list[Any]:
        """Parses without math-verify's time limit, which is the parent's task."""
        return list(math_verify.parse(text, parsing_timeout=0))

    def latex(expression: str) -> list[Any]:
        return parse(f"${expression}$")

    @lru_cache(maxsize=1024)
    def gold(answer: str) -> list[Any]:
        """Parses an accepted answer: its only expression, or else the text as a formula."""
        only = None if is_delimited(answer) else only_expression(answer)
        parsed = parse(answer) if is_delimited(answer) else latex(only) if only else []
        return parsed or latex(answer.strip().strip("$"))

    def read(text: str) -> list[list[Any]]:
        """Parses the last mathematics of a text, by its delimiters or without."""
        return [parse(text)] if is_delimited(text) else [latex(side) for side in readings(text)]

    def read_response(request: dict[str, Any]) -> list[list[Any]]:
        if request["answer"] is not None:
            return read(request["answer"])
        parsed = [latex(statement) for statement in stated(request["statement"] or "")]
        return parsed or read(request["text"])

    def is_equal(expected: list[Any], reading: list[Any]) -> bool:
        """Compares values, and what math-verify ignores in how they are written."""
        as_text = [str(parsed[-1]) for parsed in (expected, reading)]
        return same_notation(*as_text) and bool(
            math_verify.verify(expected, reading, timeout_seconds=0)
        )

    def compare(request: dict[str, Any]) -> Mapping[str, object]:
        """Returns whether any reading of the response equals an accepted answer."""
        golds = [gold(mathematics(answer)) for answer in request["accepted"]]
        if not all(golds):
            return {"problem": "the row's answer is no mathematics"}
        final = request["answer"] or request["statement"] or request["text"]
        if any(same_text(final, answer) for answer in request["accepted"]):
            return {"equal": True, "got": final[:200]}
        parts = {key: request[key] and mathematics(request[key]) for key in _PARTS}
        parsed = [reading for reading in read_response(parts) if reading]
        equal = any(is_equal(expected, reading) for expected in golds for reading in parsed)
        got = next((str(reading[-1]) for reading in parsed), "no mathematics")
        return {"equal": equal, "got": got[:200]}

    return compare


if __name__ == "__main__":
    serve(prepare, float(sys.argv[1]))
