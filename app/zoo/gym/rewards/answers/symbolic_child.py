"""A process that compares answers as mathematics; its argument is the time limit of one."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from zoo.gym.rewards.processes.serve import serve

MEMORY_BYTES = 4_000_000_000
"""Address space of a process: some powers take all memory within the time limit."""


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

    @lru_cache(maxsize=1024)
    def parse_one(answer: str) -> list[Any]:
        """Parses an answer that stands alone: as LaTeX, else as it is."""
        plain = answer.strip().strip("$")
        return parse(f"${plain}$") or parse(answer)

    def compare(request: dict[str, Any]) -> Mapping[str, object]:
        """Returns whether any reading of the response equals an accepted answer."""
        golds = [parse_one(answer) for answer in request["accepted"]]
        if not all(golds):
            return {"problem": "the row's answer is no mathematics"}
        answer = request["answer"]
        readings = [] if answer is None else [parse_one(answer)]
        readings += [parse(request["text"] if answer is None else answer)]
        equal = any(
            math_verify.verify(gold, reading, timeout_seconds=0)
            for gold in golds
            for reading in readings
            if reading
        )
        got = next((str(reading[-1]) for reading in readings if reading), "no mathematics")
        return {"equal": equal, "got": got[:200]}

    return compare


if __name__ == "__main__":
    serve(prepare, float(sys.argv[1]))
