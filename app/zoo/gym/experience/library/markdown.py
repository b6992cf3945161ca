"""The entries of a text with lists: bullets and numbers of Markdown, lines of a playbook of ACE.

An entry has all lines up to the next one, a heading, or text behind an empty line that is not
indented. What is no entry is yielded as well, a paragraph at a time, so that a reader can say what
it did not take, and so is a comment, whose lists nobody sees in the rendered text. Left out:
headings, the front matter of a skill, and the line above our own lists.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from zoo.gym.experience.library.library import HEADING

_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:\s+(.*))?")
_ACE = re.compile(r"\s*\[[^\]]{1,40}\]\s*helpful=(\d{1,10})\s*harmful=(\d{1,10})\s*::(.*)")
_ACE_ALIKE = re.compile(r"\s*\[[^\]]{1,40}\]\s*(?:helpful|harmful)\b")
_HIDDEN = re.compile(r"(?:\s*(?:[-*+]|\d{1,9}[.)])\s)*\s*<!--")
_TITLE = re.compile(r"#{1,6}(?:\s|$)")
_RULE = re.compile(r"\s*([-*_])(?:\s*\1){2,}\s*")
_FENCE = "---"
_MOST_COUNT = (1 << 31) - 1


@dataclass
class Entry:
    """A part of a text.

    Attributes:
        line: where it begins, from 1.
        text: its lines, joined by blanks.
        better: the helpful answers that a playbook counts.
        worse: the harmful ones.
        kind: `list` or `playbook`; `other` is a paragraph beside the lists.
    """

    line: int
    text: str
    better: int = 0
    worse: int = 0
    kind: Literal["list", "playbook", "other"] = "list"


def entries(text: str) -> Iterator[Entry]:
    """Yields the entries and the other paragraphs of a text, in their order."""
    lines = text.splitlines()
    start = _front_matter(lines)
    found: Entry | None = None
    is_behind_blank = is_hidden = False
    for number, line in enumerate(lines[start:], start + 1):
        if is_hidden and found is not None:
            found.text += f" {line.strip()}"
            is_hidden = line.rfind("-->") <= line.rfind("<!--")
            is_behind_blank = not is_hidden
            continue
        is_hidden = _is_hidden(line)
        begun = _begun(number, line)
        is_end = _TITLE.match(line) is not None or line.strip() == HEADING
        is_end = is_end or _RULE.fullmatch(line) is not None
        if begun is None and not is_end and line.strip():
            is_more = found is not None and not is_behind_blank
            if found is not None and (is_more or (found.kind != "other" and line[:1].isspace())):
                found.text += f" {line.strip()}"
            else:
                begun = Entry(number, line.strip(), kind="other")
        if found is not None and (is_end or begun is not None):
            yield found
        found = begun if is_end or begun is not None else found
        is_behind_blank = not line.strip()
    if found is not None:
        yield found


def _begun(number: int, line: str) -> Entry | None:
    """Returns the entry that begins with a line, None if none does."""
    if (ace := _ACE.fullmatch(line)) is not None:
        helpful, harmful = (min(int(ace[group]), _MOST_COUNT) for group in (1, 2))
        return Entry(number, ace[3].strip(), helpful, harmful, "playbook")
    if _ACE_ALIKE.match(line) is not None or _is_hidden(line):
        return Entry(number, line.strip(), kind="other")
    if _RULE.fullmatch(line) is None and (item := _ITEM.fullmatch(line)) is not None:
        return Entry(number, (item[1] or "").strip())
    return None


def _is_hidden(line: str) -> bool:
    """Returns whether a comment begins with a line and goes on behind it."""
    return _HIDDEN.match(line) is not None and line.rfind("<!--") > line.rfind("-->")


def _front_matter(lines: list[str]) -> int:
    """Returns how many lines the front matter has, 0 without one."""
    if not lines or lines[0].rstrip() != _FENCE:
        return 0
    ends = (place for place, line in enumerate(lines[1:], 2) if line.rstrip() == _FENCE)
    return next(ends, 0)
