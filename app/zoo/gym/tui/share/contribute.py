"""One page before anything leaves this machine: what a contribution gives away, in four parts."""

from collections.abc import Sequence

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Button, Input, Select, Static

from zoo.gym.errors import GymError
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.confirm import if_yes
from zoo.gym.tui.dialogs.typed import TypedDialog
from zoo.gym.tui.share.action import Action, Field, Values, option
from zoo.gym.tui.share.asking import Answer, ask_lines
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.rounds import (
    KINDS,
    LESSONS,
    Json,
    learned,
    leaves,
    short_id,
    taken_back,
    used_for,
)
from zoo.gym.tui.widgets.text_log import TextLog

PARTS = {
    "leaves": "What leaves",
    "learned": "What could be learned from it",
    "used": "What the round does with it",
    "back": "How to take it back",
}

ABOUT = {
    "delta": """\
Prepare codes the fine-tune in the round's form; nothing leaves. Then read the four parts beside \
this, and send: that needs a typed word.\
""",
    LESSONS: """\
Prepare takes the texts of the lessons alone, without their sources; nothing leaves. Then read the \
four parts beside this, and send: that needs a typed word.\
""",
}
NO_SOURCE = {
    "delta": "No run has ended with weights yet: Esc, then n, starts a training.",
    LESSONS: "There is no library of lessons yet: Esc, then l in Lessons, learns one.",
}


class ContributeScreen(FormScreen):
    """Prepares a contribution, says what it gives away, and sends it after the word `send`.

    Args:
        row: the round as `round list` has it.
        sources: what can be contributed, as its label and as the command takes it.
    """

    HELP = """
Nothing leaves this machine before you type send. A contribution is sent in two parts: now a hash, \
which binds you to these weights without showing them; later, once nobody can commit any more, the \
weights themselves, which you reveal with v in the list of rounds.
"""
    CSS_PATH = "share_form.tcss"

    def __init__(self, row: Json, sources: Sequence[tuple[str, str]]) -> None:
        self.row, self.shown, self.lines = row, Json(), list[str]()
        self.kind = str(row["kind"])
        self.prepared: Json | None = None
        self.receipt = ""
        label = "Library" if self.kind == LESSONS else "Fine-tune"
        fields = (
            Field("source", label, choices=sources or (("none yet", ""),), optional=True),
            Field("examples", "Examples that it was trained on", optional=True),
        )
        self.has_source = bool(sources)
        title = f"contribute to round {row['name']}"
        about = ABOUT.get(self.kind, ABOUT["delta"])
        super().__init__(Action(title, about, "Prepare", self._words, fields))

    def output(self) -> ComposeResult:
        """Makes the four parts, with what the command prints below them."""
        with VerticalScroll(id="parts"):
            yield Static("Reading the terms ...", id="state", markup=False)
            for name, title in PARTS.items():
                yield Static(title, classes="part", markup=False)
                yield Static("", id=name, classes="text", markup=False)
            yield TextLog()

    def on_mount(self) -> None:
        """Reads the terms of the round."""
        self.query_one("#output").border_title = "Before you send"
        self._ask_for_examples(asked=False)
        self._part("leaves", "Nothing yet. Prepare shows the file, its size and its hash.")
        self._read_terms()
        if not self.has_source:
            self.problem(NO_SOURCE.get(self.kind, NO_SOURCE["delta"]))

    @work(exclusive=True, group="terms")
    async def _read_terms(self) -> None:
        try:
            answer = await ask_lines(["round", "show", str(self.row["round"])])
            spent = (await ask_lines(["round", "ledger"])).value["spent"]
        except GymError as error:
            self.state(error.message, "bad")
            return
        self.shown, self.lines = answer.value, answer.lines
        self._ask_for_examples(asked=any("federated_average" in line for line in self.lines))
        privacy = self.shown.get("privacy")
        own = await _own_key() if privacy else ""
        self._part("learned", learned(privacy, spent, own, self.kind))
        self._part("used", used_for(self.lines))
        self._part("back", taken_back(self.shown.get("deadline"), self.kind))
        self.state("Nothing has left this machine.")

    @on(Select.Changed)
    @on(Input.Changed)
    def other_values(self) -> None:
        """Forgets what was prepared with other values."""
        if self.is_mounted and self.prepared is not None and not self.receipt:
            self.prepared = None
            self.query_one("#run", Button).label = "Prepare"
            self._show_command()

    def action_run(self) -> None:
        """Prepares; the second time it sends, after the typed word."""
        if self.running or self.receipt or not self.has_source:
            return
        if self.prepared is None:
            self.run_command(self.words)
            return
        name, address = self.row["name"], self.prepared["address"]
        dialog = TypedDialog(
            f"Send to round {name}?",
            f"A hash goes to {address}. It cannot be taken back; your {KINDS[self.kind]} stay here "
            "until you reveal them.",
            word="send",
        )
        self.app.push_screen(dialog, if_yes(lambda: self.run_command(self.words)))

    def succeeded(self, answer: Answer) -> None:
        """Shows what would leave, or the receipt of what was sent."""
        sent = answer.value
        self._part("leaves", leaves(sent, self.kind))
        button = self.query_one("#run", Button)
        if sent.get("receipt"):
            self.receipt = str(sent["receipt"])
            button.label, button.disabled = "Sent", True
            self.state(
                f"Sent. Hash {sent['digest'][:16]}. Next: once this phase is closed, v in the "
                f"list of rounds reveals it.\nReceipt: {self.receipt}",
                "good",
            )
            return
        self.prepared = sent
        button.label = "Send ..."
        self._show_command()
        self.state("Prepared: nothing has left this machine. ctrl+s sends, after a typed word.")
        button.focus()

    def _words(self, values: Values) -> list[str]:
        source = values["source"] or ("LIBRARY" if self.kind == LESSONS else "RUN")
        words = ["round", "contribute", source, "--round", short_id(self.row)]
        words += option("--examples", values["examples"])
        return [*words, "--offline", *(["--send"] if self.prepared is not None else [])]

    def _ask_for_examples(self, *, asked: bool) -> None:
        """Shows the field that only the federated average takes."""
        for name in ("#label-examples", "#field-examples"):
            self.query_one(name).display = asked

    def _part(self, name: str, text: str) -> None:
        self.query_one(f"#{name}", Static).update(visible(text))


async def _own_key() -> str:
    """Returns this user's public key; empty before there is one."""
    try:
        return str((await ask_lines(["keys", "show"])).value["key"])
    except GymError:
        return ""
