"""The columns of the chat screen: prompts, and each model's answers to them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, TypeAlias

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from zoo.gym.terminal import visible
from zoo.gym.tui.chat.compare import Span
from zoo.gym.tui.chat.server import Answer
from zoo.gym.tui.chat.sources import Source
from zoo.gym.tui.chat.turns import Turn, shown_text
from zoo.gym.tui.widgets.text_log import SCROLL_KEYS

Entry: TypeAlias = tuple[str, Answer | None, Sequence[Span]]

DIFFERENCE = "bold underline"
"""How words that differ are marked: without a colour, which not every terminal or eye has."""

LAST_THOUGHTS = 300
"""How much of its reasoning is shown while a model thinks."""


class Column(VerticalScroll):
    """Follows the newest answer while it is at its end.

    Args:
        title: who answers.
        hint: what stands here before the first prompt.
        entries: prompts so far, each with its answer and the parts of it that differ; None as
            the answer to a prompt that this model did not get.
    """

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    def __init__(self, title: str, hint: str, entries: Sequence[Entry]) -> None:
        super().__init__(classes="panel")
        self.border_title = Content(title)
        self.hint, self.entries = hint, entries
        self._shown: tuple[object, ...] = ()
        self._answer = Static(classes="answer", markup=False)

    def compose(self) -> ComposeResult:
        """Makes the entries so far, or the hint."""
        if not self.entries:
            yield Static(self.hint, classes="note", markup=False)
        for entry in self.entries:
            yield from self._entry(*entry)

    def on_mount(self) -> None:
        """Shows the newest entry."""
        self._to_end()

    def begin(self, prompt: str, answer: Answer | None) -> None:
        """Adds a prompt and its answer."""
        self.query(".note").remove()
        self.mount(*self._entry(prompt, answer, ()))
        self._to_end()

    def show(self, answer: Answer, marks: Sequence[Span] = ()) -> None:
        """Writes the newest answer as it is now."""
        shown = (len(answer.text), len(answer.reasoning), answer.finish, tuple(marks))
        if shown == self._shown:
            return
        self._shown = shown
        if self.is_vertical_scroll_end:
            self._to_end()
        self._answer.set_class(answer.error is not None, "problem")
        self._answer.update(_content(answer, marks))

    def _to_end(self) -> None:
        self.call_after_refresh(self.scroll_end, animate=False)

    def _entry(self, prompt: str, answer: Answer | None, marks: Sequence[Span]) -> Iterator[Static]:
        yield Static(visible(f"> {prompt}"), classes="prompt", markup=False)
        self._shown = ()
        text = "(not asked)" if answer is None else _content(answer, marks)
        self._answer = Static(text, classes="answer", markup=False)
        self._answer.set_class(answer is not None and answer.error is not None, "problem")
        yield self._answer


class Columns(Horizontal):
    """Columns side by side; the first one is what the others are compared with.

    Attributes:
        columns: those that stand there now; a query also has those that are being removed.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.columns: list[Column] = []

    def draw(self, titles: Mapping[Source, str], hint: str, turns: Sequence[Turn]) -> None:
        """Makes the columns again.

        Args:
            titles: who stands in each column, and what it is called.
            hint: what stands there before the first prompt.
            turns: what was said so far.
        """
        had_focus = isinstance(self.screen.focused, Column)
        marks = [turn.marks(tuple(titles)) if turn.is_over else {} for turn in turns]
        self.columns = [
            Column(
                title,
                hint,
                [
                    (turn.prompt, turn.answers.get(source), marked.get(source, ()))
                    for turn, marked in zip(turns, marks, strict=True)
                ],
            )
            for source, title in titles.items()
        ]
        self.remove_children()
        self.mount_all(self.columns or [Static(hint, classes="note", markup=False)])
        if had_focus:
            self.focus_first()

    def focus_first(self) -> None:
        """Focuses the first column, if there is one."""
        if self.columns:
            self.columns[0].focus()

    @property
    def focused_index(self) -> int:
        """Which column has the focus; the first one if none has it."""
        focused = self.screen.focused
        return next((i for i, column in enumerate(self.columns) if column is focused), 0)

    def begin(self, turn: Turn, shown: Sequence[Source]) -> bool:
        """Adds a turn to every column; returns False if they are not there yet to take it."""
        if not all(column.is_mounted for column in self.columns):
            return False
        for column, source in zip(self.columns, shown, strict=True):
            column.begin(turn.prompt, turn.answers.get(source))
        return True

    def retitle(self, titles: Sequence[str]) -> None:
        """Changes what the columns are called."""
        for column, title in zip(self.columns, titles, strict=True):
            column.border_title = Content(title)

    def show(self, turn: Turn, shown: Sequence[Source], waiting: str) -> None:
        """Writes the newest turn as it is now."""
        marks = turn.marks(shown) if turn.is_over else {}
        for column, source in zip(self.columns, shown, strict=True):
            if (answer := turn.answers.get(source)) is None:
                continue
            column.show(answer, marks.get(source, ()))
            # speeds could tell who is who
            hidden = "complete" if turn.is_over else "answering"
            column.border_subtitle = hidden if turn.is_hidden else figures(answer, waiting)


def figures(answer: Answer, waiting: str) -> str:
    """Returns the state of an answer in a few words, for the border of its column.

    Args:
        answer: the answer.
        waiting: what is said before its first token.
    """
    if answer.error is not None:
        return "failed"
    if answer.first_s is None:
        return {"stop": "empty answer", "stopped": "stopped"}.get(answer.finish or "", waiting)
    speed = "" if answer.tokens_per_s is None else f"{answer.tokens_per_s:,.0f} tok/s, "
    parts = f"{speed}first {answer.first_s:.2f} s"
    if answer.finish == "stopped":
        return f"stopped, {parts}"
    if answer.finish == "length":
        return f"cut at {answer.tokens:,} tokens, {parts}"
    return parts


def _content(answer: Answer, marks: Sequence[Span]) -> Content | str:
    if answer.error is not None:
        hint = f"\nhint: {answer.error.hint}" if answer.error.hint else ""
        so_far = f"{shown_text(answer)}\n" if answer.text else ""
        return visible(f"{so_far}{answer.error.message}{hint}")
    text = shown_text(answer)
    if not text.strip():
        if answer.reasoning:
            return visible(f"thinking: {answer.reasoning[-LAST_THOUGHTS:]}")
        return "(nothing)" if answer.finish else "..."
    content = Content(text)
    for start, end in marks:
        content = content.stylize(DIFFERENCE, start, end)
    return content
