"""The tab of small files."""

import asyncio
from typing import ClassVar

from textual.binding import Binding, BindingType

from zoo.gym.errors import GymError
from zoo.gym.humanize import human_bytes
from zoo.gym.tui.share.action import Action, Field, Values, option
from zoo.gym.tui.share.asking import Answer, ask_lines
from zoo.gym.tui.share.codings import CodingsScreen
from zoo.gym.tui.share.deltas import (
    ENDING,
    DeltaRow,
    check_parts,
    delta_rows,
    done_runs,
    file_parts,
    run_parts,
)
from zoo.gym.tui.share.pane import SharePane
from zoo.gym.tui.share.words import Part, day


class DeltasPane(SharePane[DeltaRow]):
    """Small files, and the runs that can become one."""

    KIND = "Small files and fine-tunes"
    COLUMNS = ("name", "is", ">size", "when")
    READING = "Reading small files and runs ..."
    EMPTY = """\
A small file is a fine-tune as the coded difference from its base: send it to somebody who has \
the base, and they have your model.

For example, a fine-tune of a model of 1.2 GB fits into a few MB; how close it stays is measured.

There is no finished training yet. Press n to start one, then come back and press c.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "create", "Compress", tooltip="measure the codings and write a small file"),
        Binding("C", "check", "Check", tooltip="check a file, and measure it again"),
        Binding("e", "export", "Export", tooltip="write it for other programs: GGUF, Ollama, MLX"),
        Binding("t", "chat", "Chat", show=False, tooltip="talk with it beside its base"),
        Binding(
            "V", "variant", "As variant", show=False, tooltip="store it under the name of a user"
        ),
    ]

    async def read(self) -> list[DeltaRow]:
        """Returns the files and the runs."""
        return await asyncio.to_thread(delta_rows)

    def key_of(self, row: DeltaRow) -> str:
        """Returns the path."""
        return str(row.path)

    def title_of(self, row: DeltaRow) -> str:
        """Returns the name."""
        return row.path.name

    def cells(self, row: DeltaRow) -> tuple[str, ...]:
        """Returns name, kind, size and time."""
        name = row.path.name.removesuffix(ENDING)
        if row.run is not None:
            return name, f"run, {row.run.model or 'unknown base'}", "", _date(row.at)
        return name, "small file", human_bytes(row.size_bytes), _date(row.at)

    async def details(self, row: DeltaRow) -> list[Part]:
        """Returns the header of a file, or what a run can become."""
        if row.run is not None:
            return run_parts(row)
        return file_parts((await ask_lines(["delta", "info", str(row.path)])).value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done to the row under the cursor."""
        del parameters
        row = self.current
        if action in {"check", "variant"}:
            return row is not None and row.run is None
        return action not in {"export", "chat"} or row is not None

    def on_data_table_row_selected(self) -> None:
        """Compresses a run, checks a file."""
        if (row := self.current) is not None:
            self.action_create() if row.run is not None else self.action_check()

    def action_create(self) -> None:
        """Opens the table of codings, with the run under the cursor chosen."""
        runs, row = done_runs(), self.current
        if not runs:
            self.notify(
                "No run has ended with weights yet: n starts a training", severity="warning"
            )
            return
        if row is not None and (chosen := row.run) is not None:
            runs.sort(key=lambda run: run.id != chosen.id)
        self.app.push_screen(CodingsScreen(runs))

    def action_check(self) -> None:
        """Opens the check of the file under the cursor."""
        if (row := self.current) is None:
            return
        path = str(row.path)

        def words(values: Values) -> list[str]:
            return ["delta", "check", path, *option("--data", values["data"]), "--offline"]

        about = "Reads the file again, compares it with its base, and measures its quality on "
        about += "examples of yours: a reader cannot know that a maker measured honestly."
        field = Field(
            "data", "Examples to measure on", placeholder="none", optional=True, is_path=True
        )
        action = Action("check a small file", about, "Check", words, (field,), done=_checked)
        self.open_form(action)

    def action_export(self) -> None:
        """Opens the export of what is under the cursor."""
        if (row := self.current) is None:
            return
        from zoo.gym.tui.runs.export import ExportScreen

        self.app.push_screen(ExportScreen(str(row.path) if row.run is None else row.run.id))

    def action_chat(self) -> None:
        """Opens Chat with what is under the cursor beside its base."""
        if (row := self.current) is None:
            return
        if row.run is not None:
            self.open_chat([row.run.id])
        else:
            self.screen.run_worker(self._chat_with(row))

    async def _chat_with(self, row: DeltaRow) -> None:
        try:
            about = (await ask_lines(["delta", "info", str(row.path)])).value
        except GymError as error:
            self.notify(error.message, severity="error", markup=False)
            return
        self.open_chat([str(row.path)], base=str(about["base"]["id"]))

    def action_variant(self) -> None:
        """Opens the form that stores the file as a variant."""
        if (row := self.current) is None:
            return
        path = str(row.path)

        def words(values: Values) -> list[str]:
            return ["variants", "import", path, "--user", values["user"], "--offline"]

        about = "Stores the file under the name of a user: one server answers for all variants "
        about += "of a base."
        field = Field("user", "Name of the user", placeholder="a-z, 0-9, '.', '_' and '-'")
        self.open_form(Action("store as a variant", about, "Store", words, (field,)))


def _date(seconds: float) -> str:
    """Returns a time without its hour, which has no room beside the size."""
    return " ".join(day(seconds).split()[:2])


def _checked(answer: Answer) -> str:
    return check_parts(answer.value)
