"""Compresses a fine-tune: every coding in a table as it is measured, and one of them written."""

import shlex
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.widgets import Button, DataTable, Input, Select, Static

from zoo.gym.jobs import Run, RunRow
from zoo.gym.tui.share.action import Action, Field, Values, option
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.share.deltas import ENDING, Coding, coding_of, deltas_folder
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.words import cell
from zoo.gym.tui.widgets.lists import RowTable
from zoo.gym.tui.widgets.text_log import TextLog

SHARE = 3
"""How much smaller than the weights of the run the file is to be, unless another size is set."""

COLUMNS = ("coding", ">size", ">KL", ">same", ">gain")

ABOUT = """\
Makes a small file of a fine-tune: the coded difference from its base. Codings are measured beside \
the fine-tune, on examples that it has not learned, and the closest that fits is written.\
"""

WAITS = """\
No coding is measured yet. ctrl+s measures them: size, and KL to the fine-tune in nats a token.\
"""


class CodingsScreen(FormScreen):
    """Measures the codings of a fine-tune, and writes the one that is chosen.

    Args:
        runs: the runs to choose from, the proposed one first.
    """

    HELP = """
A coding stores each value in fewer bits. KL says how far its predictions are from the fine-tune's \
(0 is equal); same is the share of tokens for which both have the same most likely one; gain is \
the part of the lower loss that is kept.

ctrl+s measures, and writes the closest that fits. Enter on a row of the table chooses that coding \
instead; ctrl+s then writes the file again with it.
"""
    CSS_PATH = "share_form.tcss"

    def __init__(self, runs: list[RunRow]) -> None:
        self.coding = ""
        self.codings: dict[str, tuple[str, ...]] = {}
        self._written = ""
        self._runs = {run.id: run for run in runs}
        self._proposed = _proposed(runs[0])
        size, out = self._proposed
        choices = [(f"{run.id}  {run.model or ''}", run.id) for run in runs]
        fields = (
            Field("run", "Fine-tune", runs[0].id, choices=choices),
            Field("size", "Largest size, such as 100kB or 10MB", size),
            Field("data", "Held-out examples (a run has its own)", optional=True, is_path=True),
            Field("out", "File to write", out),
        )
        super().__init__(Action("compress a fine-tune", ABOUT, "Measure", self._words, fields))

    def output(self) -> ComposeResult:
        """Makes the table of codings, with what the command prints below it."""
        yield Static(WAITS, id="state", markup=False)
        yield RowTable(cursor_type="row")
        yield TextLog()

    def on_mount(self) -> None:
        """Adds the columns of the table."""
        self.query_one("#output").border_title = "Codings, as measured"
        table = self.query_one(RowTable)
        for name in COLUMNS:
            table.add_column(cell(name, name.lstrip(">")))
        table.display = False

    def line(self, text: str) -> None:
        """Adds a measured coding to the table, and any other line to the log."""
        if (coding := coding_of(text)) is not None:
            self._add(coding)
            return
        chosen = text.removeprefix("chosen: ")
        if chosen != text:
            self._written = chosen
        super().line(text)

    def succeeded(self, answer: Answer) -> None:
        """Shows the measured quality of what was written in its row."""
        quality, options = answer.value.get("quality") or {}, self.coding or self._written
        size, kl, *_ = self.codings.get(options, ("", "-"))
        shares = [quality.get(key) for key in ("top1", "recovered")]
        same, kept = ("-" if share is None else f"{share:.1%}" for share in shares)
        self.codings[options] = (size, kl, same, kept)
        self._written = options
        self._show()
        self.state(
            f"Written with the coding marked *: {answer.value['file']}. Enter on a row chooses "
            "another one; Esc goes back.",
            "good",
        )
        self.query_one(RowTable).focus()

    @on(Select.Changed, "#field-run")
    def other_run(self) -> None:
        """Proposes size and file of another run, where nothing else was typed."""
        if not self.is_mounted or (run := self._runs.get(self.values["run"])) is None:
            return
        before, self._proposed = self._proposed, _proposed(run)
        for key, old, new in zip(("size", "out"), before, self._proposed, strict=True):
            field = self.query_one(f"#field-{key}", Input)
            field.value = new if field.value == old else field.value

    @on(DataTable.RowSelected)
    def chosen(self, event: DataTable.RowSelected) -> None:
        """Takes the coding under the cursor; nothing is written yet."""
        if self.running:
            return
        self.coding = list(self.codings)[event.cursor_row]
        button = self.query_one("#run", Button)
        button.label = f"Write with {self.coding}"
        self.changed()
        button.focus()

    def _words(self, values: Values) -> list[str]:
        words = ["delta", "create", values["run"]]
        words += shlex.split(self.coding) if self.coding else ["--max-bytes", values["size"]]
        words += option("--data", values["data"])
        return [
            *words,
            "--out",
            values["out"],
            *(["--force"] if self._written else []),
            "--offline",
        ]

    def _add(self, coding: Coding) -> None:
        self.codings[coding.options] = (coding.size, coding.kl, "", "")
        self._show()

    def _show(self) -> None:
        table = self.query_one(RowTable)
        rows = [
            tuple(map(cell, COLUMNS, (f"* {name}" if name == self._written else f"  {name}", *row)))
            for name, row in self.codings.items()
        ]
        table.display = True
        table.clear()
        table.fit(rows)
        for row in rows:
            table.add_row(*row)


def _proposed(run: RunRow) -> tuple[str, str]:
    """Returns the largest size and the name of the small file of a run."""
    files = Run(Path(run.folder)).result.glob("*.safetensors")
    size = max(1, sum(file.stat().st_size for file in files) // SHARE // 1000)
    return f"{size}kB", str(deltas_folder() / f"{run.id}{ENDING}")
