"""The sampled answers of a run by RL, a group at a time."""

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Footer, Static

from zoo.gym.humanize import figure
from zoo.gym.jobs import Run
from zoo.gym.terminal import visible
from zoo.gym.tui.runs.groups import SORTS, Group, Sample, read_groups
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import RowTable

COLUMNS = ("advantage", "reward", "tokens", "end", "answer")
EMPTY = """\
No sampled answers yet.

A run by GRPO or another method of RL keeps the answers that it samples, with their rewards. \
They come with its first step.

For example, choose grpo with ctrl+t in a new training: n starts one."""
READ_EVERY_S = 2.0
NUMBERS = 43
"""The cells of a line of the table before its answer, with the frame."""
MOST = 1000
"""The characters of an answer of which a line of the table is made."""


class GroupsScreen(GymScreen):
    """Shows the answers of one group with their rewards, and one answer in full.

    Args:
        run: whose answers.
    """

    HELP = """
A group is all answers that were sampled for one prompt at one step. An answer above the mean \
reward of its group has a positive advantage, and becomes likelier.

A group whose rewards are all equal teaches nothing. "cut" means that the answer was longer than \
the limit.
"""
    CSS_PATH = "groups.tcss"
    AUTO_FOCUS: ClassVar[str | None] = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,p", "move(-1)", "Earlier", key_display="p"),
        Binding("right,l", "move(1)", "Later", key_display="l"),
        Binding("s", "sort", "Sort"),
        Binding("y", "copy", "Copy", show=False, tooltip="copy prompt and answer"),
        Binding("escape", "app.pop_screen", "Back", key_display="Esc"),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.groups: list[Group] = []
        self._at: int | None = None
        self._sort = "advantage"

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar(f"{self.run.id} > answers")
        with Vertical(id="none", classes="panel empty") as box:
            box.border_title = "Sampled answers"
            yield Static(EMPTY, markup=False)
        with VerticalScroll(id="asked", classes="panel"):
            yield Static(id="prompt", markup=False)
        yield RowTable(cursor_type="row", classes="panel fills")
        with VerticalScroll(id="whole", classes="panel"):
            yield Static(id="answer", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Reads the answers, and again from time to time."""
        self.query_one("#whole").border_title = "Answer"
        self._show_parts(has_groups=False)
        self._table.add_columns(*COLUMNS)
        self._read()
        self.set_interval(READ_EVERY_S, self._read)

    def action_move(self, by: int) -> None:
        """Shows another group."""
        if self.groups:
            last = len(self.groups) - 1
            at = last if self._at is None else self._at
            self._at = max(0, min(last, at + by))
            self._show()

    def action_sort(self) -> None:
        """Sorts by the next column."""
        names = list(SORTS)
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self._show()

    def action_copy(self) -> None:
        """Copies prompt and answer."""
        if group := self._group:
            answer = self._sorted(group)[self._table.cursor_row].get("completion")
            self.app.copy_to_clipboard(f"{group.prompt}\n\n{answer}")
            self.notify("Copied")

    def on_data_table_row_highlighted(self) -> None:
        """Shows the answer under the cursor in full."""
        group, at = self._group, self._table.cursor_row
        if group is not None and 0 <= at < len(group.samples):
            self.query_one("#answer", Static).update(_whole(self._sorted(group)[at]))

    def on_resize(self) -> None:
        """Shortens the answers to the new width."""
        if self.is_mounted:
            self.call_after_refresh(self._show)

    def _show_parts(self, *, has_groups: bool) -> None:
        self.query_one("#none").display = not has_groups
        for part in (self.query_one("#asked"), self._table, self.query_one("#whole")):
            part.display = has_groups
        if has_groups and self.focused is None:
            self._table.focus()

    @property
    def _table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _group(self) -> Group | None:
        if not self.groups:
            return None
        return self.groups[-1 if self._at is None else self._at]

    def _sorted(self, group: Group) -> list[Sample]:
        return sorted(group.samples, key=SORTS[self._sort])

    @work(exclusive=True)
    async def _read(self) -> None:
        try:
            groups = await asyncio.to_thread(read_groups, self.run.samples)
        except OSError as error:
            self._show_parts(has_groups=False)
            problem = visible(f"They cannot be read: {error}")
            self.query_one("#none > Static", Static).update(problem)
            return
        if len(groups) != len(self.groups) or groups[-1:] != self.groups[-1:]:
            self.groups = groups
            self._show()

    def _show(self) -> None:
        group = self._group
        if group is None:
            return
        table, at = self._table, len(self.groups) if self._at is None else self._at + 1
        self._show_parts(has_groups=True)
        self.query_one("#prompt", Static).update(visible(group.prompt))
        asked = self.query_one("#asked")
        asked.border_title = f"Step {group.step}, group {at} of {len(self.groups)}"
        asked.border_subtitle = "all rewards equal: no signal" if group.is_flat else ""
        table.border_title = f"{len(group.samples)} answers by {self._sort}"
        room = max(20, self.size.width - NUMBERS)
        rows = [_cells(sample, room) for sample in self._sorted(group)]
        table.fit(rows)
        table.clear()
        for row in rows:
            table.add_row(*row)


def _cells(sample: Sample, room: int) -> tuple[Text, ...]:
    numbers = (_signed(sample.get("advantage")), _text(sample.get("reward")))
    tokens, cut = str(sample.get("tokens", "")), "cut" if sample.get("truncated") else "eos"
    answer = Text(visible(" ".join(str(sample.get("completion", ""))[:MOST].split())))
    answer.truncate(room, overflow="ellipsis")
    cells = [Text(each, justify="right") for each in (*numbers, tokens)]
    return (*cells, Text(cut), answer)


def _whole(sample: Sample) -> str:
    parts = sample.get("parts") or {}
    rewards = "  ".join(f"{name} {_text(value)}" for name, value in parts.items())
    reason = str(sample.get("reason") or "")
    head = "  ".join(each for each in (rewards, reason) if each)
    return visible("\n\n".join(each for each in (head, str(sample.get("completion"))) if each))


def _signed(value: object) -> str:
    return f"{value:+.2f}" if isinstance(value, int | float) else "-"


def _text(value: object) -> str:
    return figure(value) if isinstance(value, int | float) else "-"
