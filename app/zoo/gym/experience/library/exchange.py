"""Libraries in other forms: Markdown, Agent Skills, and those of two other programs.

In and out: Markdown with the id of each lesson, the parent of a text that was changed, a folder's
`SKILL.md`, `experiences.json` of youtu-agent (`{"G0": "Name: text"}`) and playbooks of ACE
(`[str-00001] helpful=4 harmful=0 :: text`). In alone: the agents that youtu-agent writes, in YAML.
A text that was changed by hand, or comes from elsewhere, has no evidence. What is not taken is
named.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.file import MOST_BYTES, as_foreign, read_library
from zoo.gym.experience.library.item import Item, lesson_text
from zoo.gym.experience.library.library import HEADING, Library
from zoo.gym.experience.library.markdown import entries
from zoo.gym.files import read_small
from zoo.gym.files.yaml_entries import UNREADABLE

_ID_BESIDE = re.compile(r"<!--\s*([0-9a-f]{16})\s*-->")
_LABEL = re.compile(r"\[([0-9a-f]{6,16})\]\s*(?=\S)")
_IN_AGENT = re.compile(r"\[G?\d{1,9}\]\.\s")
_BEHIND = re.compile(r"\n(?=\S)|\n[ \t]*\n")  # a lesson goes on in lines that are indented
_OTHER = "expected a list of lessons, got other text: {}"
_YOUTU = re.compile(r"G\d{1,9}")
_FRONT_MATTER = re.compile(r"---\r?\n(.*?)\r?\n---\s", re.DOTALL)
_NAMED = re.compile(r"^name:[ \t]*(\S.*)$", re.MULTILINE)
_SKILL_NAME = re.compile(r"[^a-z0-9-]+")

_MOST_SHOWN = 60
_MOST_READ = 4096  # a longer entry is no lesson anyway

MOST_DESCRIPTION = 1024
"""The longest description of a skill."""


def to_markdown(library: Library, title: str) -> str:
    """Returns a library as Markdown: a list of lessons, the id of each in a comment."""
    lines = [f"- {item.text} <!-- {item.id} -->" for item in library.items]
    return "\n".join([f"# {title}", "", HEADING, "", *lines, ""])


def to_skill(library: Library, name: str) -> str:
    """Returns the `SKILL.md` of an Agent Skill with the lessons."""
    plain = _SKILL_NAME.sub("-", name.lower()).strip("-")[:64] or "lessons"
    about = library.domain or f"tasks like those of {name}"
    description = " ".join(f"Lessons from measured answers, for {about}".split())
    quoted = json.dumps(description[:MOST_DESCRIPTION], ensure_ascii=False)
    return f"---\nname: {plain}\ndescription: {quoted}\n---\n\n{to_markdown(library, name)}"


def to_youtu(library: Library, name: str) -> str:
    """Returns a library as `experiences.json` of youtu-agent; its numbers are places."""
    del name
    texts = {f"G{place}": item.text for place, item in enumerate(library.items)}
    return json.dumps(texts, indent=4, ensure_ascii=False) + "\n"


def to_ace(library: Library, name: str) -> str:
    """Returns a library as a playbook of ACE, with the counts that such a file had of a lesson.

    What was learned here has none: the answers of its group did not have the lesson yet.
    """
    del name
    counts = [(0, 0) if item.step else (item.better, item.worse) for item in library.items]
    lines = [
        f"[str-{place:05d}] helpful={better} harmful={worse} :: {item.text}"
        for place, (item, (better, worse)) in enumerate(zip(library.items, counts, strict=True), 1)
    ]
    return "\n".join(["## STRATEGIES & INSIGHTS", *lines, "", "## OTHERS", ""])


FORMS = {
    "markdown": (to_markdown, "{}.md"),
    "skill": (to_skill, "{}/SKILL.md"),
    "youtu": (to_youtu, "{}.experiences.json"),
    "ace": (to_ace, "{}.playbook.txt"),
}
"""What writes each form, and the default name of its file."""


def name_in(path: Path) -> str:
    """Returns what a file of lessons calls itself, else the file's name without our suffixes.

    The name is `name` in the front matter of a skill; a `SKILL.md` without one has its folder's.
    """
    try:
        text = read_small(path, most_bytes=MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = ""  # reading the lessons says what is wrong
    front = _FRONT_MATTER.match(text)
    named = _NAMED.search(front[1]) if front else None
    if named is not None:
        return named[1].rstrip().strip("\"'")
    if path.name == "SKILL.md":
        return path.resolve().parent.name
    return path.stem.removesuffix(".experiences").removesuffix(".playbook")


def read_unknown(path: Path) -> Library:
    """Returns the library in a file for which nobody vouches.

    Raises:
        InputError: it is none, or was changed.
    """
    return as_foreign(read_library(path)[0])


def read_foreign(
    path: Path,
    known: Library | None = None,
    read: Callable[[Path], Library] = read_unknown,
    ids: Collection[str] = (),
) -> tuple[Library, list[str]]:
    """Returns the lessons in a file of any form, and why others were left out.

    Args:
        path: a library, Markdown, `SKILL.md`, a playbook of ACE, `experiences.json`, or an agent.
        known: a library whose lessons keep what is known of them if their text is the same.
        read: reads a library of ours, with the evidence that somebody vouches for.
        ids: those of lessons elsewhere, which may be parents, too.

    Raises:
        NotAvailableError: there is no file.
        InputError: it has no lesson, or more than a library can have.
    """
    try:
        content = read_small(path, most_bytes=MOST_BYTES)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise NotAvailableError(f"{path}: expected a file of lessons, got nothing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a file of lessons in UTF-8: {error}") from None
    if text.lstrip()[:1] == "{" and _is_library(path, text):
        return _old_kept(read(path), known), []
    parents = {*ids, *(item.id for item in known.items)} if known else set(ids)
    items: dict[str, Item] = {}
    left_out: list[str] = []
    found = _in_agent(path, text) if path.suffix in (".yaml", ".yml") else _items(text, known)
    for place, item in found:
        try:
            if isinstance(item, str):
                raise InputError(item)
            checked = _checked(item, parents)
        except InputError as error:
            left_out.append(f"{path}:{place}: {error.message}")
            continue
        items.setdefault(checked.id, checked)
    if not items:
        raise InputError(f"{path}: expected lessons as a list or a known form, got none")
    return _with_known(tuple(items.values()), known), left_out


def _checked(item: Item, known: Collection[str]) -> Item:
    """Returns a lesson of a text; its parent is the one whose id stands beside it, if it is known.

    Raises:
        InputError: it is no lesson.
    """
    found = replace(item, text=lesson_text(item.text), parents=())
    parents = (one for one in item.parents if one in known and one != found.id)
    return replace(found, parents=tuple(parents))


def _is_library(path: Path, text: str) -> bool:
    """Returns whether JSON is a library of ours."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: expected lessons, got broken JSON") from None
    return isinstance(found, dict) and "format" in found


def _old_kept(library: Library, known: Library | None) -> Library:
    """Returns a library whose lessons of unknown origin keep what is known of them here.

    The same lessons as the known ones, with nothing measured of them, are the known library.
    """
    if known is not None and not library.evidence and library.has_lessons_of(known):
        return known
    old = {item.id: item for item in known.items} if known else {}
    items = tuple(item if item.step else old.get(item.id, item) for item in library.items)
    seen = (*library.seen, *(known.seen if known else ()))
    return replace(library, items=items, seen=seen)


def _in_agent(path: Path, text: str) -> Iterator[tuple[int | str, Item | str]]:
    """Yields the lessons at the end of an agent's instructions, and why other text is none."""
    import yaml

    try:
        found: object = yaml.safe_load(text)
    except (yaml.YAMLError, *UNREADABLE, RecursionError):
        raise InputError(f"{path}: expected an agent of youtu-agent, got broken YAML") from None
    agent = cast("dict[str, object]", found).get("agent") if isinstance(found, dict) else None
    orders = cast("dict[str, object]", agent).get("instructions") if isinstance(agent, dict) else ""
    before, *texts = _IN_AGENT.split(orders if isinstance(orders, str) else "")
    if texts and before.strip():
        yield "instructions", _OTHER.format(_cut(before.strip()))
    for place, one in enumerate(texts, 1):
        text, *behind = _BEHIND.split(one.strip(), maxsplit=1)
        yield place, Item(text)
        for other in behind:
            yield place, _OTHER.format(_cut(other))


def _items(text: str, known: Library | None) -> Iterator[tuple[int | str, Item | str]]:
    """Yields each lesson of a text with its line or key, and why others are none."""
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


def _in_json(text: str) -> Iterator[tuple[str, Item | str]]:
    """Yields the lessons of `experiences.json`; of a key that is there twice, both."""
    pairs: list[tuple[str, object]] = []

    def outermost(found: list[tuple[str, object]]) -> object:
        pairs[:] = found
        return dict(found)

    json.loads(text, object_pairs_hook=outermost)
    for key, value in pairs:
        if _YOUTU.fullmatch(key) is None:
            yield key, "expected a key such as G0, got another one"
        elif isinstance(value, str):
            yield key, Item(value)
        else:
            yield key, f"expected text, got {type(value).__name__}"


def _without_id(text: str, known: Library | None) -> tuple[str, str, str]:
    """Returns an entry without its id, the id, and a comment behind it that is none.

    The id is in a comment, as we write it, or in brackets before the text, as a teacher sees it;
    other brackets are of the text.
    """
    beside = list(_ID_BESIDE.finditer(text))
    if beside:
        last = beside[-1]
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
    """Returns the beginning of a text, on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_SHOWN else f"{plain[:_MOST_SHOWN]}..."


def _with_known(items: tuple[Item, ...], known: Library | None) -> Library:
    """Returns a library in which unchanged lessons keep what is known of them."""
    if known is None:
        return Library(items)
    old = {item.id: item for item in known.items}
    kept = tuple(old.get(item.id, item) for item in items)
    if {item.id for item in kept} == old.keys():
        return known
    return Library(kept, known.model, known.teacher, known.domain, seen=known.seen)
