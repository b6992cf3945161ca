"""The findings of `zoo-gym data inspect`, in words."""

from collections.abc import Mapping
from typing import Any

from zoo.gym.config.stages import DEFAULT

MOST_PROBLEMS = 3


def inspection_words(inspected: Mapping[str, Any], *, stage_given: bool = False) -> str:
    """Returns rows, format, methods, lengths, warnings and problems, one per line.

    Args:
        inspected: the object that the command answers with `--json`.
        stage_given: whether the settings choose the method.
    """
    tokens, rows = inspected["tokens"], inspected["rows"]
    formats = ", ".join(dict.fromkeys(str(name) for name in inspected["files"].values()))
    cut = inspected["truncated"]
    at = f"truncated to {inspected['cutoff_len']:,}"
    lines = [
        f"{rows:,} {'example' if rows == 1 else 'examples'}; detected format: {formats}",
        f"Tokens per example: median {tokens['p50']:,}, longest {tokens['longest']:,}; "
        + (f"{cut:,} {'is' if cut == 1 else 'are'} {at}" if cut else "none is truncated"),
    ]
    stages = inspected.get("stages", [])
    if stages and DEFAULT not in stages and not stage_given:
        lines.append(
            f"For {' or '.join(stages)}: choose one in the settings, such as stage={stages[0]}"
        )
    lines += [f"Warning: {warning}" for warning in inspected["warnings"]]
    return "\n".join(lines + _problems(inspected["problems"]))


def _problems(problems: list[Any]) -> list[str]:
    if not problems:
        return []
    head = f"{len(problems):,} {'row is' if len(problems) == 1 else 'rows are'} skipped:"
    lines = [f"  {problem['where']}: {problem['reason']}" for problem in problems[:MOST_PROBLEMS]]
    more = len(problems) - len(lines)
    return [head, *lines, *([f"  and {more:,} more"] if more else [])]
