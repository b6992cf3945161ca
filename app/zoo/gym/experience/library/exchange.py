"""Libraries in other forms: Markdown, Agent Skills, and those of two other programs.

Read and written: Markdown with the id of each lesson, the parent of a text that was changed, a
folder's `SKILL.md`, `experiences.json` of youtu-agent (`{"G0": "Name: text"}`) and playbooks of ACE
(`[str-00001] helpful=4 harmful=0 :: text`). Only read: the agents that youtu-agent writes, in YAML.
A text that was changed by hand, or comes from elsewhere, has no evidence. Text that is not taken is
reported.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.evidence import MOST_COUNT
from zoo.gym.experience.library.file import MOST_BYTES, as_foreign, read_library
from zoo.gym.experience.library.item import Item, lesson_text
from zoo.gym.experience.library.library import HEADING, Library
from zoo.gym.files import read_small
from zoo.gym.files.yaml_entries import UNREADABLE

_ID_BESIDE = re.compile(r"<!--\s*([0-9a-f]{16})\s*-->")
_LABEL = re.compile(r"\[([0-9a-f]{6,16})\]\s*(?=\S)")
_IN_AGENT = re.compile(r"\[G?\d{1,9}\]\.\s")
_BEHIND = re.compile(r"\n(?=\S)|\n[ \t]*\n")  # a lesson continues in indented lines
_OTHER = "expected a list of lessons, got other text: {}"
_YOUTU = re.compile(r"G\d{1,9}")
_FRONT_MATTER = re.compile(r"---\r?\n(.*?)\r?\n---\s", re.DOTALL)
_NAMED = re.compile(r"^name:[ \t]*(\S.*)$", re.MULTILINE)
_SKILL_NAME = re.compile(r"[^a-z0-9-]+")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:\s+(.*))?")
_ACE = re.compile(r"\s*\[[^\]]{1,40}\]\s*helpful=(\d{1,10})\s*harmful=(\d{1,10})\s*::(.*)")
_ACE_ALIKE = re.compile(r"\s*\[[^\]]{1,40}\]\s*(?:helpful|harmful)\b")
_HIDDEN = re.compile(r"(?:\s*(?:[-*+]|\d{1,9}[.)])\s)*\s*<!--")
_TITLE = re.compile(r"#{1,6}(?:\s|$)")
_RULE = re.compile(r"\s*([-*_])(?:\s*\1){2,}\s*")
_FENCE = "---"

_MOST_SHOWN = 60
_MOST_READ = 4096  # a longer entry is no lesson anyway

MOST_DESCRIPTION = 1024
"""The longest description of a skill."""

_Found: TypeAlias = Iterator[tuple[int | str, Item | str]]
"""Lessons, or why other text is none, each with its line or key."""


def to_markdown(library: Library, title: str) -> str:
    """Returns a library as Markdown: a list of lessons, the id of each in a comment."""
    lines = [f"- {item.text} <!-- {item.id} -->" for item in library.items]
    return "\n".join([f"# {title}", "", HEADING, "", *lines, ""])


def to_skill(library: Library, name: str) -> str:
    """Returns the `SKILL.md` of an Agent Skill with the lessons."""
    plain = _SKILL_NAME.sub("-", name.lower()).strip("-")[:64] or "lessons"
    domain = library.domain or f"tasks like those of {name}"
    description = " ".join(f"Lessons from measured answers, for {domain}".split())
    quoted = json.dumps(description[:MOST_DESCRIPTION], ensure_ascii=False)
    return f"---\nname: {plain}\ndescription: {quoted}\n---\n\n{to_markdown(library, name)}"


def to_youtu(library: Library, _name: str) -> str:
    """Returns a library as `experiences.json` of youtu-agent; its numbers are positions."""
    texts = {f"G{number}": item.text for number, item in enumerate(library.items)}
    return json.dumps(texts, indent=4, ensure_ascii=False) + "\n"


def to_ace(library: Library, _name: str) -> str:
    """Returns a library as a playbook of ACE, with the counts that such a file had of a lesson.

    A lesson that was learned here has none: the answers of its group did not have it yet.
    """
    lines: list[str] = []
    for number, item in enumerate(library.items, 1):
        better, worse = (0, 0) if item.step else (item.better, item.worse)
        lines.append(f"[str-{number:05d}] helpful={better} harmful={worse} :: {item.text}")
    return "\n".join(["## STRATEGIES & INSIGHTS", *lines, "", "## OTHERS", ""])


FORMS = {
    "markdown": (to_markdown, "{}.md"),
    "skill": (to_skill, "{}/SKILL.md"),
    "youtu": (to_youtu, "{}.experiences.json"),
    "ace": (to_ace, "{}.playbook.txt"),
}
"""The function that writes each form, and the default name of its file."""


def name_in(path: Path) -> str:
    """Returns the name that a file of lessons has in it, else the file's without our suffixes.

    It is `name` in the front matter of a skill; a `SKILL.md` without one has its folder's.
    """
    try:
        text = read_small(path, most_bytes=MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = ""  # reading the lessons reports the error
    front = _FRONT_MATTER.match(text)
    named = _NAMED.search(front[1]) if front else None
    if named is not None:
        return named[1].rstrip().strip("\"'")
    if path.name == "SKILL.md":
        return path.resolve().parent.name
    return path.stem.removesuffix(".experiences").removesuffix(".playbook")


def read_foreign(
    path: Path,
    known: Library | None = None,
    read: Callable[[Path], Library] = lambda path: as_foreign(read_library(path)[0]),
    ids: Collection[str] = (),
) -> tuple[Library, list[str]]:
    """Returns the lessons in a file of any form, and why others were left out.

    Args:
        path: a library, Markdown, `SKILL.md`, a playbook of ACE, `experiences.json`, or an agent.
        known: a library: a lesson with the same text keeps what is stored about it.
        read: reads a library of ours; by default without evidence, as nobody vouches for it.
        ids: those of lessons elsewhere, which may be parents, too.

    Raises:
        NotAvailableError: there is no file.
        InputError: it has no lesson, or more than a library can have.
    """
    try:
        text = read_small(path, most_bytes=MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise NotAvailableError(
            f"{path}: expected a file of lessons, got nothing", code="experience.no_such_file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: expected a file of lessons in UTF-8: {error}",
            code="experience.unreadable_file",
        ) from None
    old = {item.id: item for item in known.items} if known else {}
    if text.lstrip()[:1] == "{" and _is_library(path, text):
        library = read(path)
        if known is not None and not library.evidence and library.has_lessons_of(known):
            return known, []
        lessons = tuple(item if item.step else old.get(item.id, item) for item in library.items)
        seen = (*library.seen, *(known.seen if known else ()))
        return replace(library, items=lessons, seen=seen), []
    items: dict[str, Item] = {}
    left_out: list[str] = []
    is_agent = path.suffix in (".yaml", ".yml")
    for line, item in _in_agent(path, text) if is_agent else _items(text, known):
        try:
            if isinstance(item, str):
                raise InputError(item, code="experience.lesson")
            lesson = replace(item, text=lesson_text(item.text))
        except InputError as error:
            left_out.append(f"{path}:{line}: {error.message}")
            continue
        # the id beside a text is its parent, if it is that of another lesson here
        parents = (i for i in item.parents if (i in old or i in ids) and i != lesson.id)
        items.setdefault(lesson.id, replace(lesson, parents=tuple(parents)))
    if not items:
        raise InputError(
            f"{path}: expected lessons as a list or a known form, got none",
            code="experience.no_lessons",
        )
    lessons = tuple(old.get(item.id, item) for item in items.values())
    if known is None:
        return Library(lessons), left_out
    if items.keys() == old.keys():
        return known, left_out
    return Library(lessons, known.model, known.teacher, known.domain, seen=known.seen), left_out


def _is_library(path: Path, text: str) -> bool:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: expected lessons, got broken JSON", code="experience.broken_file"
        ) from None
    return isinstance(value, dict) and "format" in value


def _in_agent(path: Path, text: str) -> _Found:
    import yaml

    try:
        value: object = yaml.safe_load(text)
    except (yaml.YAMLError, *UNREADABLE, RecursionError):
        raise InputError(
            f"{path}: expected an agent of youtu-agent, got broken YAML",
            code="experience.broken_file",
        ) from None
    for key in ("agent", "instructions"):
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    start, *texts = _IN_AGENT.split(value if isinstance(value, str) else "")
    if texts and start.strip():
        yield "instructions", _OTHER.format(_cut(start.strip()))
    for number, part in enumerate(texts, 1):
        lesson, *rest = _BEHIND.split(part.strip(), maxsplit=1)
        yield number, Item(lesson)
        yield from ((number, _OTHER.format(_cut(other))) for other in rest)


def _items(text: str, known: Library | None) -> _Found:
    if text.lstrip()[:1] == "{":
        yield from _in_json(text)
        return
    for entry in entries(text):
        if entry.kind == "other":
            yield entry.line, _OTHER.format(_cut(entry.text))
            continue
        plain, parent, comment = entry.text, "", ""
        if entry.kind == "list" and len(plain) <= _MOST_READ:
            plain, parent, comment = _without_id(plain, known)
        parents = (parent,) if parent else ()
        yield entry.line, Item(plain, parents, better=entry.better, worse=entry.worse)
        if comment:
            yield entry.line, f"expected a lesson, got a comment behind it: {_cut(comment)}"


def _in_json(text: str) -> _Found:
    """Yields the lessons of `experiences.json`; both of a duplicate key."""
    pairs: list[tuple[str, object]] = []

    def outermost(fields: list[tuple[str, object]]) -> object:
        pairs[:] = fields
        return dict(fields)

    json.loads(text, object_pairs_hook=outermost)
    for key, value in pairs:
        if _YOUTU.fullmatch(key) is None:
            yield key, "expected a key such as G0, got another one"
        elif isinstance(value, str):
            yield key, Item(value)
        else:
            yield key, f"expected text, got {type(value).__name__}"


def _without_id(text: str, known: Library | None) -> tuple[str, str, str]:
    """Returns an entry without its id, the id, and a comment after it that is no id.

    The id is in a comment, as we write it, or in brackets before the text, as a teacher sees it;
    other brackets belong to the text.
    """
    ids = list(_ID_BESIDE.finditer(text))
    if ids:
        last = ids[-1]
        plain = f"{text[: last.start()].strip()} {text[last.end() :].strip()}".strip()
        return plain, last[1], ""
    label = _LABEL.match(text)
    named = known.find(label[1]) if label and known else None
    if label is not None and named is not None:
        return text[label.end() :], named.id, ""
    end = len(text) - len("-->")
    start = text.find("<!--", text.rfind("-->", 0, end) + 1) if text.endswith("-->") else -1
    if not 0 <= start <= end - len("<!--"):
        return text, "", ""
    return text[:start].rstrip(), "", text[start + len("<!--") : end].strip()


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_SHOWN else f"{plain[:_MOST_SHOWN]}..."


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
    """Yields the bullets and numbers of Markdown, the lines of a playbook, and other paragraphs.

    An entry has all lines up to the next one, a heading, or text after an empty line that is not
    indented. A paragraph beside the lists is yielded too, so that a reader can report what it did
    not take, and so is a comment: nobody sees its lists in the rendered text. Left out: headings,
    the front matter of a skill, and the line above our own lists.
    """
    lines = text.splitlines()
    start = _front_matter(lines)
    entry: Entry | None = None
    is_after_blank = is_hidden = False
    for number, line in enumerate(lines[start:], start + 1):
        if is_hidden and entry is not None:
            entry.text += f" {line.strip()}"
            is_hidden = line.rfind("-->") <= line.rfind("<!--")
            is_after_blank = not is_hidden
            continue
        is_hidden = _is_hidden(line)
        begun = _begun(number, line)
        is_end = _TITLE.match(line) is not None or line.strip() == HEADING
        is_end = is_end or _RULE.fullmatch(line) is not None
        if begun is None and not is_end and line.strip():
            is_more = entry is not None and not is_after_blank
            if entry is not None and (is_more or (entry.kind != "other" and line[:1].isspace())):
                entry.text += f" {line.strip()}"
            else:
                begun = Entry(number, line.strip(), kind="other")
        if is_end or begun is not None:
            if entry is not None:
                yield entry
            entry = begun
        is_after_blank = not line.strip()
    if entry is not None:
        yield entry


def _begun(number: int, line: str) -> Entry | None:
    if (ace := _ACE.fullmatch(line)) is not None:
        helpful, harmful = (min(int(ace[group]), MOST_COUNT - 1) for group in (1, 2))
        return Entry(number, ace[3].strip(), helpful, harmful, "playbook")
    if _ACE_ALIKE.match(line) is not None or _is_hidden(line):
        return Entry(number, line.strip(), kind="other")
    if _RULE.fullmatch(line) is None and (bullet := _ITEM.fullmatch(line)) is not None:
        return Entry(number, (bullet[1] or "").strip())
    return None


def _is_hidden(line: str) -> bool:
    """Returns whether a comment begins with a line and does not end in it."""
    return _HIDDEN.match(line) is not None and line.rfind("<!--") > line.rfind("-->")


def _front_matter(lines: list[str]) -> int:
    if not lines or lines[0].rstrip() != _FENCE:
        return 0
    return next((n for n, line in enumerate(lines[1:], 2) if line.rstrip() == _FENCE), 0)
