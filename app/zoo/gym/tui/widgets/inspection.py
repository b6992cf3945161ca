"""The findings of `zoo-gym data inspect`, in words."""

from collections.abc import Mapping
from typing import Any

MOST_PROBLEMS = 3


def inspection_words(found: Mapping[str, Any]) -> str:
    """Returns rows, format, lengths, warnings and problems, one per line.

    Args:
        found: the object that the command answers with `--json`.
    """
    tokens, rows = found["tokens"], found["rows"]
    formats = ", ".join(dict.fromkeys(str(name) for name in found["files"].values()))
    lines = [
        f"{rows:,} {'example' if rows == 1 else 'examples'}; detected format: {formats}",
        f"Tokens per example: median {tokens['p50']:,}, longest {tokens['longest']:,}; "
        + _cut(found),
    ]
    lines += [f"Warning: {warning}" for warning in found["warnings"]]
    return "\n".join(lines + _problems(found["problems"]))


def _cut(found: Mapping[str, Any]) -> str:
    cut = found["truncated"]
    at = f"truncated to {found['cutoff_len']:,}"
    return f"{cut:,} {'is' if cut == 1 else 'are'} {at}" if cut else "none is truncated"


def _problems(problems: list[Any]) -> list[str]:
    if not problems:
        return []
    head = f"{len(problems):,} {'row is' if len(problems) == 1 else 'rows are'} skipped:"
    shown = [f"  {problem['where']}: {problem['reason']}" for problem in problems[:MOST_PROBLEMS]]
    more = len(problems) - len(shown)
    return [head, *shown, *([f"  and {more:,} more"] if more else [])]
