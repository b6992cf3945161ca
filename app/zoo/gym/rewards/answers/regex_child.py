"""The process of a regular expression: its arguments are the pattern and the time limit."""

import re
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from zoo.gym.rewards.processes.serve import serve


def prepare(pattern: str) -> Callable[[dict[str, Any]], dict[str, object]]:
    """Returns the function that searches a text."""
    compiled = re.compile(pattern)
    group = "answer" if "answer" in compiled.groupindex else min(1, compiled.groups)

    def search(request: dict[str, Any]) -> dict[str, object]:
        """Returns the group of the last match, empty if it took no part; None without a match."""
        matches = deque(compiled.finditer(request["text"]), maxlen=1)
        return {"found": (matches[0][group] or "") if matches else None}

    return search


if __name__ == "__main__":
    serve(lambda: prepare(sys.argv[1]), float(sys.argv[2]))
