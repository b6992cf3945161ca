"""Files of lessons in the place Data: which files are some, and what stands in them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from zoo.gym.errors import GymError
from zoo.gym.experience.library.exchange import read_foreign
from zoo.gym.experience.library.file import FORMAT, MOST_BYTES
from zoo.gym.experience.library.library import HEADING
from zoo.gym.files import read_small
from zoo.gym.humanize import counted
from zoo.gym.terminal import visible

ENDINGS = {".json", ".md", ".txt", ".yaml", ".yml"}

_PLAYBOOK = re.compile(r"^\s*\[[^\]]{1,40}\]\s*helpful=\d+\s*harmful=\d+\s*::", re.MULTILINE)
_AGENT = re.compile(r"^agent:\s", re.MULTILINE)
_EXPERIENCE = re.compile(r"G\d{1,9}")


@dataclass(frozen=True)
class LessonFile:
    """A file that `experience import` reads.

    Attributes:
        form: what kind of file it is, in words.
        lessons: their texts.
        left_out: what stands there besides, each with the reason.
        problem: why none can be read; empty if some can.
    """

    form: str
    lessons: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""


def lessons_in(path: Path) -> LessonFile | None:
    """Returns the lessons of a file; None for one that need not be a file of lessons.

    A list in Markdown is one only if it has our heading, or is a skill: any text has lists.
    """
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return None
    try:
        text = read_small(path, most_bytes=MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, GymError):
        return None
    form = form_of(path, text)
    if form is None:
        return None
    try:
        library, left_out = read_foreign(path)
    except GymError as error:
        return LessonFile(form, problem=error.message)
    return LessonFile(form, tuple(item.text for item in library.items), tuple(left_out))


def form_of(path: Path, text: str) -> str | None:
    """Returns what kind of file of lessons a text is, in words; None if it may be anything."""
    if text.lstrip()[:1] == "{":
        return _form_of_json(text)
    if path.name == "SKILL.md":
        return "a skill (SKILL.md)"
    if _PLAYBOOK.search(text):
        return "a playbook of ACE"
    if path.suffix.lower() in {".yaml", ".yml"}:
        return "an agent of youtu-agent" if _AGENT.search(text) else None
    return "a list of lessons in Markdown" if HEADING in text else None


def _form_of_json(text: str) -> str | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not value:
        return None
    if value.get("format") == FORMAT:
        return "a library of lessons of zoo-gym"
    keys = [str(key) for key in value]
    is_experiences = all(_EXPERIENCE.fullmatch(key) for key in keys)
    return "experiences of youtu-agent" if is_experiences else None


class LessonsPanel(VerticalScroll):
    """The lessons of a file, as a model would read them."""

    def compose(self) -> ComposeResult:
        """Makes the text."""
        yield Static(markup=False)

    def show(self, file: LessonFile | None) -> None:
        """Shows the lessons of a file; without one the panel is hidden."""
        self.display = file is not None
        if file is not None:
            self.border_title = f"Lessons: {file.form}"
            self.border_subtitle = "" if file.problem else "i imports them"
            self.query_one(Static).update(_content(file))


def _content(file: LessonFile) -> Content:
    if file.problem:
        return Content.styled(visible(file.problem), "$warning")
    count = counted(len(file.lessons), "lesson")
    lines = [Content(f"{count}, no rows to train on. A model reads them in its prompt."), Content()]
    lines += [
        Content.assemble((f"{number:>3}  ", "$secondary"), visible(text))
        for number, text in enumerate(file.lessons, 1)
    ]
    if file.left_out:
        lines += [Content(), Content.styled("Not read as lessons", "$warning")]
        lines += [Content(visible(reason)) for reason in file.left_out]
    return Content("\n").join(lines)
