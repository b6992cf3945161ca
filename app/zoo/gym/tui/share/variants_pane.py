"""The tab of variants: fine-tunes of many people on one base."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from zoo.gym.humanize import human_bytes
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
from zoo.gym.tui.share.action import Action, Field, Question, Values, option
from zoo.gym.tui.share.asking import ask_lines
from zoo.gym.tui.share.deltas import DeltaRow, delta_rows, file_parts
from zoo.gym.tui.share.pane import SharePane
from zoo.gym.tui.share.rounds import Json
from zoo.gym.tui.share.serve import ServeScreen
from zoo.gym.tui.share.server import Server, server_words
from zoo.gym.tui.share.words import Part, note

READ_EVERY_S = 0.5
PAGE = 500
"""The variants that are listed at most."""

ROW_ACTIONS = {"serve", "chat", "rename", "export", "remove"}
"""The actions about the row under the cursor."""


class VariantsPane(SharePane[Json]):
    """The variants, and the server that answers for them."""

    KIND = "Variants"
    COLUMNS = ("base", "name", ">size")
    READING = "Reading the variants ..."
    EMPTY = """\
A variant is the small file of one user's fine-tune, stored under a name. One server loads the \
base once and answers for all of its variants.

For example, ann and ben each trained zen-nano on their own mails: programs ask for zen-nano:ann \
or zen-nano:ben, and each gets their own.

Press c to store a fine-tune or a small file as the first variant.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "create", "Create", tooltip="store a run or a small file as a variant"),
        Binding("S", "serve", "Server", tooltip="turn the server of the base on or off"),
        Binding("t", "chat", "Chat", show=False, tooltip="talk with it beside its base"),
        Binding("R", "rename", "Rename", show=False, tooltip="give the variant another name"),
        Binding("e", "export", "Export", show=False, tooltip="copy it to a small file"),
        Binding("D", "remove", "Delete", tooltip="delete the variant; asks first"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()

    def below(self) -> ComposeResult:
        """Makes the line of the server."""
        yield Static(server_words(self.server), id="server", markup=False)

    def on_mount(self) -> None:
        """Follows the server."""
        self.set_interval(READ_EVERY_S, self._show_server)

    def on_unmount(self) -> None:
        """Ends the server with the app."""
        self.server.end()

    async def read(self) -> list[Json]:
        """Returns the variants."""
        answer = await ask_lines(["variants", "list", "--limit", str(PAGE)])
        return list(answer.value["variants"])

    def key_of(self, row: Json) -> str:
        """Returns base and name."""
        return str(row["variant"])

    def cells(self, row: Json) -> tuple[str, ...]:
        """Returns base, name and size."""
        return str(row["base"]), str(row["name"]), human_bytes(row["bytes"])

    async def details(self, row: Json) -> list[Part]:
        """Returns the header and the measured quality."""
        shown = (await ask_lines(["variants", "show", self.key_of(row)])).value
        return [
            *file_parts(shown),
            note("t opens it in Chat, R renames it, e copies it to a small file."),
        ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done to the row under the cursor."""
        del parameters
        if action == "serve" and self.server.is_on:
            return True
        return action not in ROW_ACTIONS or self.current is not None

    def on_data_table_row_selected(self) -> None:
        """Turns the server on, or shows its address."""
        if not self.server.is_on:
            self.action_serve()

    def action_create(self) -> None:
        """Opens the form that stores a variant."""
        self.open_form(_creation(delta_rows()))

    def action_serve(self) -> None:
        """Turns the server on, or off after a yes."""
        if not self.server.is_on:
            if (row := self.current) is not None:
                self.app.push_screen(ServeScreen(str(row["base"]), self.server))
            return
        dialog = ConfirmDialog(
            "Turn the server off?",
            f"{self.server.url or self.server.base} stops answering; answers that have begun end.",
            yes="Yes, turn it off",
        )
        self.app.push_screen(dialog, if_yes(self._turn_off))

    def action_chat(self) -> None:
        """Opens Chat with the variant beside its base."""
        if (row := self.current) is not None:
            self.open_chat([str(row["name"])], base=str(row["base"]))

    def action_rename(self) -> None:
        """Opens the form of a new name."""
        if (row := self.current) is None:
            return
        name = self.key_of(row)
        field = Field("name", "New name", str(row["name"]))
        text = "Programs ask for it by the new name from then on."
        self.open_form(
            Action(f"rename {name}", text, "Rename",
                   lambda values: ["variants", "rename", name, values["name"]], (field,))
        )  # fmt: skip

    def action_export(self) -> None:
        """Opens the form that copies it to a file."""
        if (row := self.current) is None:
            return
        name = self.key_of(row)
        field = Field("out", "File", placeholder=f"{row['name']}.delta.safetensors in this folder",
                      optional=True, is_path=True)  # fmt: skip
        text = "Copies it to a small file, for another machine with the same base."
        self.open_form(
            Action(f"export {name}", text, "Export",
                   lambda values: ["variants", "export", name, *option("--out", values["out"])],
                   (field,))
        )  # fmt: skip

    def action_remove(self) -> None:
        """Opens the deletion, which asks first."""
        if (row := self.current) is None:
            return
        name = self.key_of(row)
        question = Question(
            f"Delete {name}, {human_bytes(row['bytes'])}?",
            "The stored small file is deleted. The run that it was made of stays.",
            "Yes, delete it",
        )
        text = "Deletes the variant. A server ends answers for it that have begun."
        self.open_form(
            Action(f"delete {name}", text, "Delete",
                   lambda _: ["variants", "remove", name, "--yes"], question=lambda _: question)
        )  # fmt: skip

    def _turn_off(self) -> None:
        self.server.end()
        self._show_server()

    def _show_server(self) -> None:
        widget = self.query_one("#server", Static)
        widget.update(visible(server_words(self.server)))
        widget.set_class(bool(self.server.url), "on")


def _creation(rows: list[DeltaRow]) -> Action:
    def words(values: Values) -> list[str]:
        kind, _, source = values["source"].partition(" ")
        chosen = [f"--{kind}", source] if source else []
        return ["variants", "create", "--user", values["user"], *chosen]

    choices = [
        (f"{row.path.name}, {'run' if row.run else 'small file'}", _source(row)) for row in rows
    ]
    text = "Stores a fine-tune under the name of a user. Low-rank ones (LoRA runs) can be "
    text += "variants: their rows are computed together with those of others."
    fields = (
        Field("user", "Name of the user", placeholder="a-z, 0-9, '.', '_' and '-'"),
        Field("source", "Of", choices=choices or (("nothing yet: n starts a training", ""),)),
    )
    return Action("store a variant", text, "Store", words, fields)


def _source(row: DeltaRow) -> str:
    return f"run {row.run.id}" if row.run is not None else f"delta {row.path}"
