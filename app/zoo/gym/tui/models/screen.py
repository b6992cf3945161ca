"""The models on this machine and the listed ones: what fits, downloads, imports."""

import re
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.coordinate import Coordinate
from textual.events import Paste
from textual.widgets import DataTable, Footer, Input, Static

from zoo.gym.errors import GymError
from zoo.gym.jobs.command import ask_command
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.browse import BrowseDialog
from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
from zoo.gym.tui.models import text as texts
from zoo.gym.tui.models.downloads import Downloads, Transfer, downloads_of
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import absolute_path, is_file, pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.fitted import Fitted
from zoo.gym.tui.widgets.lists import RowTable
from zoo.gym.tui.widgets.path_field import PathField

COLUMNS = ("model", "params", "size", "where", "licence")
LOADING = "Reading the models on this machine ..."
ADD = "org/name, a GGUF file, or a model folder"
LATER = "Estimating what fits in this machine's memory ..."

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
_TICK_S = 0.5
_WHERE = COLUMNS.index("where")


class ModelsScreen(GymScreen):
    """Lists models; the panel beside them is about the one under the cursor."""

    HELP = """
zen-pico comes with zoo-gym. The other models of the list are downloaded once, by d or Enter, \
after a question that names size, licence and place; nothing else here uses the network. \
Downloads go on while you do something else in this app, one after another.

Any other model: press a and enter its id on the Hugging Face hub, a GGUF file, which becomes \
a model folder, or a folder that has a model.

Bars compare what a training needs with the memory that is free now.
"""
    CSS_PATH = "models.tcss"
    AUTO_FOCUS: ClassVar[str | None] = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "download", "Download", tooltip="download it, or continue; asks first"),
        Binding("t", "train", "Train", tooltip="start a training of this model"),
        Binding("c", "chat", "Chat", tooltip="talk with this model"),
        Binding("x", "stop", "Stop", tooltip="stop the download; what is here stays"),
        Binding("a", "add", "Add", tooltip="another model: an id, a GGUF file, a folder"),
        Binding("b", "browse", "Browse", show=False, tooltip="look for a GGUF file"),
        Binding("r", "reload", "Read again", show=False, tooltip="read the list again"),
        Binding("y", "copy", "Copy command", show=False, tooltip="copy the command for this model"),
        Binding("escape", "leave", "Back", show=False, tooltip="back to the list"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.models: list[texts.Model] = []
        self.memory: tuple[int, str] | None = None
        self._folders: dict[str, texts.Model] = {}
        self._fits: dict[str, Any] = {}
        self._seen: tuple[tuple[str, str, int], ...] = ()
        self._ended: set[str] = set()
        self._was_shown = False

    def compose(self) -> ComposeResult:
        """Makes the screen; the models follow once they are read."""
        yield Bar()
        with Horizontal(classes="columns"):
            with Vertical(classes="column", id="left"):
                with Vertical(classes="panel", id="list") as box:
                    box.border_title = "Models"
                    yield Static(LOADING, id="note", classes="note", markup=False)
                    yield Static(id="problem", classes="problem", markup=False)
                    yield RowTable(cursor_type="row")
                with VerticalScroll(classes="panel", id="downloads") as box:
                    box.border_title = "Downloads"
                    yield Fitted(id="queue")
                with Vertical(classes="panel", id="places") as box:
                    box.border_title = "Where models are kept"
                    yield Static(id="folders", markup=False)
                with Vertical(classes="panel", id="add") as box:
                    box.border_title = "Another model"
                    yield PathField(placeholder=ADD, id="path", compact=True)
                    yield Static(id="add-problem", classes="problem", markup=False)
            with VerticalScroll(classes="panel", id="model"):
                yield Static(id="about", markup=False)
                yield Static(id="next", markup=False)
                yield Fitted(id="fits")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Reads the models, then what fits."""
        for column in COLUMNS:
            is_number = column in {"params", "size"}
            label = Text(column, justify="right" if is_number else "left")
            self._table.add_column(label, key=column)
        self._table.show_header = False
        for name in ("#problem", "#downloads", "#add-problem", "#model"):
            self.query_one(name).display = False
        self.query_one("#folders", Static).update(texts.places_text())
        self._read()
        self.set_interval(_TICK_S, self._tick)

    def on_screen_resume(self) -> None:
        """Reads the models again: a command elsewhere may have brought one."""
        if self._was_shown:
            self._read()
        self._was_shown = True

    def on_paste(self, event: Paste) -> None:
        """Takes a dropped GGUF file or folder."""
        self._add(pasted_path(event.text))

    @on(DataTable.RowHighlighted)
    def row_changed(self) -> None:
        """Shows the model under the cursor."""
        self._show_model()
        self.refresh_bindings()

    @on(DataTable.RowSelected)
    def row_chosen(self) -> None:
        """Downloads what is not here, and trains what is."""
        if (model := self.current) is None:
            return
        if model["where"] in texts.HERE:
            self.action_train()
        else:
            self.action_download()

    @on(Input.Submitted, "#path")
    def path_entered(self) -> None:
        """Takes an id, a file or a folder."""
        self._add(pasted_path(self.query_one("#path", Input).value))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done with the model under the cursor."""
        del parameters
        if action not in {"download", "train", "chat", "stop"} or not self.is_mounted:
            return True
        if action == "stop":
            return self._stoppable is not None
        model = self.current
        is_here = model is not None and model["where"] in texts.HERE
        if action != "download":
            return is_here and model is not None and model["where"] != "folder"
        transfer = self.downloads.of(str(model["name"])) if model else None
        return model is not None and not is_here and not (transfer and transfer.is_live)

    @property
    def downloads(self) -> Downloads:
        """The queue of the app."""
        return downloads_of(self.app)

    @property
    def current(self) -> texts.Model | None:
        """The model under the cursor."""
        at = self._table.cursor_row if self.is_mounted else -1
        return self.models[at] if 0 <= at < len(self.models) else None

    def action_download(self) -> None:
        """Asks, then queues the download of the model under the cursor."""
        if (model := self.current) is not None:
            self._ask(model)

    def action_stop(self) -> None:
        """Stops the download of the model under the cursor, or else the one that runs."""
        if (transfer := self._stoppable) is not None:
            self.downloads.stop(transfer)
            self._tick()

    def action_train(self) -> None:
        """Opens a new training of the model under the cursor."""
        if (model := self.current) is not None:
            app_of(self).action_start("", str(model["name"]))

    async def action_chat(self) -> None:
        """Goes to the chat, with the model under the cursor."""
        if (model := self.current) is not None:
            await app_of(self).action_compare(base=str(model["name"]))

    def action_add(self) -> None:
        """Goes to the field for another model."""
        self.query_one("#add").add_class("-shown")
        self.query_one("#path").focus()

    def action_leave(self) -> None:
        """Goes back to the list."""
        self.query_one("#add").remove_class("-shown")
        self._table.focus()

    def action_reload(self) -> None:
        """Reads everything again."""
        self._fits = {}
        self._read()

    def action_copy(self) -> None:
        """Copies the command for the model under the cursor."""
        if (model := self.current) is not None:
            verb = "chat --model" if model["where"] in texts.HERE else "models get"
            self.app.copy_to_clipboard(f"zoo-gym {verb} {model['name']}")
            self.notify("Copied")

    def action_browse(self) -> None:
        """Opens a tree of folders, for a GGUF file."""

        def chosen(path: str | None) -> None:
            if path:
                self._add(path)

        dialog = BrowseDialog(Path.cwd(), (".gguf",), title="Import a GGUF file")
        self.app.push_screen(dialog, chosen)

    @property
    def _table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _stoppable(self) -> Transfer | None:
        live = self.downloads.live
        name = self.current["name"] if self.current else ""
        return next((each for each in live if each.name == name), live[0] if live else None)

    def _ask(self, model: texts.Model) -> None:
        words = ("models", "get", str(model["name"]), "--yes")
        transfer = Transfer(str(model["name"]), words, model["download_bytes"])
        question, consequence = texts.question(model, transfer)

        dialog = ConfirmDialog(question, consequence, yes="Yes, download it")
        self.app.push_screen(dialog, if_yes(lambda: self._queue(transfer)))

    def _queue(self, transfer: Transfer) -> None:
        self.downloads.add(transfer)
        self._tick()

    def _add(self, text: str) -> None:
        """Imports a file, checks a folder, or asks about a download."""
        self._problem("add-problem", "")
        self.query_one("#add").add_class("-shown")
        self.query_one("#path", Input).value = text
        path = absolute_path(text) if text else ""
        if path and is_file(path):
            self._queue(Transfer(path, ("models", "import", path)))
        elif path and Path(path).is_dir():
            self._check_folder(path)
        elif _HUB_ID.fullmatch(text):
            nothing: dict[str, Any] = {"download_bytes": None, "licence": None, "here_bytes": 0}
            self._ask(nothing | {"name": text, "id": text, "where": "not here"})
        else:
            self._problem("add-problem", f"'{text}': expected {ADD}")
            return
        self.action_leave()

    @work(exclusive=True, group="folder")
    async def _check_folder(self, path: str) -> None:
        try:
            answer = await ask_command(["models", "get", path, "--offline"])
        except GymError as error:
            self.query_one("#add").add_class("-shown")
            self._problem("add-problem", _message(error))
            return
        folder = Path(str(answer["folder"]))
        size = sum(each.stat().st_size for each in folder.iterdir() if each.is_file())
        row: dict[str, Any] = {"name": path, "id": answer["name"], "where": "folder"}
        row |= {"folder": path, "revision": answer["revision"], "here_bytes": size}
        self._folders[path] = row | {"parameters": None, "licence": None, "download_bytes": None}
        self.query_one("#path", Input).value = ""
        self._list([*self.models, self._folders[path]])

    @work(exclusive=True, group="read")
    async def _read(self) -> None:
        """Reads the list, which takes less than a second, then the estimates, which load torch."""
        try:
            answer = await ask_command(["models"])
            self._list(answer["models"])
            if self._fits.keys() >= {model["name"] for model in self.models}:
                return
            answer = await ask_command(["models", "--fits"])
        except GymError as error:
            self._problem("problem", _message(error))
            self.query_one("#note").display = bool(self.models)
            return
        self.memory = answer["free_bytes"], answer["device"]
        self._fits = {model["name"]: model["fits"] for model in answer["models"]}
        self._list(answer["models"])

    def _list(self, models: list[texts.Model]) -> None:
        self._problem("problem", "")
        names = {model["name"] for model in models}
        added = [row for name, row in self._folders.items() if name not in names]
        self.models = [*models, *added]
        self._show()

    def _tick(self) -> None:
        """Shows how far downloads are; reads the list again once one has ended."""
        transfers = self.downloads.transfers
        seen = tuple((each.name, each.state, each.done) for each in transfers)
        if seen == self._seen:
            return
        is_same = [each[:2] for each in seen] == [each[:2] for each in self._seen]
        self._seen = seen
        if is_same:
            # only how far the downloads are has changed
            for at, row in enumerate(self._rows()):
                self._table.update_cell_at(Coordinate(at, _WHERE), row[_WHERE])
            self._show_queue()
            return
        ended = {each.name for each in transfers if each.state == "done"}
        is_new = not ended <= self._ended
        self._ended = ended
        self._show()
        if is_new:
            self._fits = {}
            self._read()

    def _show(self) -> None:
        """Writes the table, the queue and the panel; the cursor stays."""
        table, chosen = self._table, self.current
        rows = self._rows()
        table.fit(rows)
        at = table.cursor_row
        table.clear()
        for row in rows:
            table.add_row(*row)
        names = [model["name"] for model in self.models]
        if chosen is not None and chosen["name"] in names:
            at = names.index(chosen["name"])
        table.move_cursor(row=min(at, max(0, len(rows) - 1)))
        here = sum(model["where"] in texts.HERE for model in self.models)
        note = self.query_one("#note", Static)
        note.update(f"{here} of {len(self.models)} on this machine" if rows else LOADING)
        note.display = not rows
        table.show_header = self.query_one("#model").display = bool(rows)
        self.query_one("#list").border_subtitle = (
            f"{here} of {len(self.models)} on this machine" if rows else ""
        )
        self.query_one("#downloads").display = bool(self.downloads.transfers)
        self._show_queue()
        self._show_model()
        self.refresh_bindings()

    def _show_queue(self) -> None:
        transfers = list(self.downloads.transfers)
        self.query_one("#queue", Fitted).show(partial(texts.downloads_text, transfers))

    def _rows(self) -> list[tuple[Text, ...]]:
        colours = self.app.theme_variables
        pairs = [(model, self.downloads.of(str(model["name"]))) for model in self.models]
        rows: list[tuple[Text, ...]] = []
        for (model, _), cells in zip(pairs, texts.cells_of(pairs), strict=True):
            colour = colours[texts.colour_of(model, cells[_WHERE])]
            styled = [
                Text(cell, justify="right" if i in {1, 2} else "left")
                for i, cell in enumerate(cells)
            ]
            styled[_WHERE].stylize(colour)
            rows.append(tuple(styled))
        return rows

    def _show_model(self) -> None:
        model, box = self.current, self.query_one("#model")
        box.display = model is not None
        if model is None:
            return
        box.border_title = Content(visible(str(model["name"])))
        box.border_subtitle = Content(visible(str(model["where"])))
        self.query_one("#about", Static).update(texts.about(model))
        self.query_one("#next", Static).update(
            texts.what_next(model, self.downloads.of(str(model["name"])))
        )
        fits = self.query_one("#fits", Fitted)
        if self.memory is None:
            fits.show(lambda _: Content(LATER))
        else:
            jobs = self._fits.get(str(model["name"]), [])
            fits.show(partial(texts.fits_text, jobs, *self.memory))

    def _problem(self, name: str, text: str) -> None:
        widget = self.query_one(f"#{name}", Static)
        widget.display = bool(text)
        widget.update(visible(text))


def _message(error: GymError) -> str:
    return f"{error.message}\n{error.hint}" if error.hint else error.message
