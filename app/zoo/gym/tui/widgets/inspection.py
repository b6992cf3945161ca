"""What `zoo-gym data inspect` found, in words."""

from collections.abc import Mapping
from typing import Any

MOST_PROBLEMS = 3


def inspection_words(found: Mapping[str, Any]) -> str:
    """Returns rows, format, lengths and what is wrong, a line each.

    Args:
        found: the object that the command answers with `--json`.
    """
    tokens, rows = found["tokens"], found["rows"]
    formats = ", ".join(dict.fromkeys(str(name) for name in found["files"].values()))
    lines = [
        f"{rows:,} {'example' if rows == 1 else 'examples'}; format found by itself: {formats}",
        f"Half of them have up to {tokens['p50']:,} tokens, the longest {tokens['longest']:,}; "
        + _cut(found),
    ]
    lines += [f"Mind: {warning}" for warning in found["warnings"]]
    return "\n".join(lines + _problems(found["problems"]))


def _cut(found: Mapping[str, Any]) -> str:
    cut = found["truncated"]
    return f"{cut:,} are cut at {found['cutoff_len']:,}" if cut else "none is cut"


def _problems(problems: list[Any]) -> list[str]:
    if not problems:
        return []
    head = f"{len(problems):,} {'row is' if len(problems) == 1 else 'rows are'} left out:"
    shown = [f"  {problem['where']}: {problem['reason']}" for problem in problems[:MOST_PROBLEMS]]
    more = len(problems) - len(shown)
    return [head, *shown, *([f"  and {more:,} more"] if more else [])]
