"""Finds the code in a response: its fenced blocks, and which of them is the solution.

Blocks are fenced as in CommonMark: by three or more backticks or tildes, indented or not, and
closed by as many. Those of other languages count only if there are none of Python. Only regular
expressions read the text here: parsing a hostile program can end the process that does it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from zoo.gym.rewards.answers.final import without_reasoning
from zoo.gym.rewards.code.row_tests import row_tests
from zoo.gym.rewards.reward import Sample

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})([^\n]*)")
_DEFINED = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
_ASSIGNED = re.compile(r"^(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*")
_PYTHON = frozenset(("", "python", "py", "python3", "py3", "ipython", "ipython3"))
_MOST_INDENT = 3
"""Columns by which a closing fence may be indented more than the opening one."""


def solution_of(sample: Sample) -> tuple[str, tuple[str, ...]]:
    """Returns the code of a response, and its other blocks, which may define what the code uses.

    The code is the last block that defines what the row's tests use, else the last one with a
    definition, else the last one; without blocks it is all of the response. A function that only
    continues the prompt, as in HumanEval, comes with the prompt.
    """
    text = without_reasoning(sample.response)
    blocks, rest = _blocks(text)
    fields, query = sample.task.metadata, sample.task.query
    if not blocks:  # without a fence, or cut off
        code = _unstripped(sample.response, text) if rest is None else rest
        return _with_prompt(code, fields, query), ()
    tests = (*row_tests(sample.task), str(fields.get("entry_point") or ""))
    main = _main(blocks, {name for test in tests for name in _NAME.findall(test)})
    remaining = (*blocks[:main], *blocks[main + 1 :])
    return _with_prompt(blocks[main], fields, query), remaining


def _blocks(text: str) -> tuple[list[str], str | None]:
    """Returns the contents of the closed blocks, and that of a last one that is not closed."""
    blocks: list[tuple[str, str]] = []
    lines = _LINE.findall(text)
    position = 0
    while position < len(lines):
        opened = _FENCE.match(lines[position])
        position += 1
        if opened is None or (opened[2][0] == "`" and "`" in opened[3]):
            continue
        start = position
        while position < len(lines) and not _closes(lines[position], opened):
            position += 1
        code = "".join(_unindented(lines[start:position], opened[1]))
        word = re.match(r"[\s{.]*([\w+#-]*)", opened[3])
        language = word[1].lower() if word else ""
        if position == len(lines) and not any(tag in _PYTHON for tag, _ in blocks):
            return ([], code) if not blocks or language in _PYTHON else (_of_python(blocks), None)
        if position < len(lines):
            blocks.append((language, code))
            position += 1
    return _of_python(blocks), None


def _of_python(blocks: Sequence[tuple[str, str]]) -> list[str]:
    python = [content for language, content in blocks if language in _PYTHON]
    return python or [content for _, content in blocks]


def _closes(line: str, opened: "re.Match[str]") -> bool:
    fence = _FENCE.match(line)
    if fence is None or fence[3].strip():
        return False
    deeper = len(fence[1].expandtabs()) - len(opened[1].expandtabs())
    return fence[2].startswith(opened[2]) and deeper <= _MOST_INDENT


def _unindented(lines: Sequence[str], indent: str) -> Iterator[str]:
    """Yields lines without as much of their indentation as the fence has."""
    for line in lines:
        blank = len(line) - len(line.lstrip(" \t"))
        yield line[min(blank, len(indent)) :]


def _main(blocks: Sequence[str], used: set[str]) -> int:
    """Returns the place of the block that is the solution."""
    defined = [set(_DEFINED.findall(block)) for block in blocks]
    assigned = [set(_ASSIGNED.findall(block)) for block in blocks]
    ways = (
        [bool(names & used) for names in defined],
        [bool(names & used) for names in assigned],
        [any(not name.lower().startswith("test") for name in names) for names in defined],
        [bool(names) for names in defined],
        [True] * len(blocks),
    )
    way = next(way for way in ways if any(way))
    return max(index for index, fits in enumerate(way) if fits)


def _unstripped(response: str, text: str) -> str:
    """Returns the text with the indentation of its first line."""
    start = response.rfind(text)
    line = response.rfind("\n", 0, start) + 1 if start >= 0 else 0
    indent = response[line:start]
    return indent + text if indent.isspace() else text


def _with_prompt(code: str, fields: Mapping[str, object], query: str) -> str:
    entry = fields.get("entry_point")
    if not isinstance(entry, str) or not entry:
        return code
    defined = re.search(rf"^\s*(?:async )?def {re.escape(entry)}\b", code, re.MULTILINE)
    prompt = fields.get("prompt")
    return code if defined else (prompt if isinstance(prompt, str) else query) + code
