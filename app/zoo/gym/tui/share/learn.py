"""Learns lessons: first what it would need and what would leave, then the run."""

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Button, Input, Static

from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.share.action import Action, Field, Values, option
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.lessons import NOTHING_LEAVES, estimate_parts
from zoo.gym.tui.widgets.text_log import TextLog

ABOUT = """\
A model answers tasks, a teacher writes down what the good answers did, and a gate keeps a lesson \
only if it helps on other tasks. No weights change. First the estimate: it makes no call.\
"""

FIELDS = (
    Field("tasks", "Tasks: rows with a prompt and an answer", placeholder="tasks.jsonl",
          is_path=True),
    Field("model", "Model that answers", placeholder="http://HOST/v1#NAME or zen-nano"),
    Field("teacher", "Teacher", placeholder="the same model", optional=True),
    Field("reward", "Reward", "auto"),
    Field("name", "Name of the library", placeholder="as the file of tasks", optional=True),
    Field("usd", "Cap in USD", placeholder="5; none for models of this machine", optional=True),
    Field("tokens", "Cap in tokens", placeholder="none", optional=True),
)  # fmt: skip


class LearnScreen(FormScreen):
    """Estimates, and starts the run after a yes."""

    HELP = """
The model is one of a chat server (http://HOST/v1#NAME or PROVIDER/NAME) or of this machine. \
ctrl+s estimates calls, tokens and money, and says what would leave this machine; ctrl+s again \
starts the run, after a yes. Every change of the form asks for a new estimate.
"""
    CSS_PATH = "share_form.tcss"

    def __init__(self) -> None:
        self.estimated: Answer | None = None
        super().__init__(Action("learn lessons", ABOUT, "Estimate", self._words, FIELDS))

    def output(self) -> ComposeResult:
        """Makes the figures, with what the command prints below them."""
        with VerticalScroll(id="parts"):
            yield Static("Nothing is estimated yet.", id="state", markup=False)
            yield Vertical(id="figures")
            yield TextLog()

    def on_mount(self) -> None:
        """Names the box of the estimate."""
        self.query_one("#output").border_title = "What it needs"

    @on(Input.Changed)
    def other_values(self) -> None:
        """Forgets an estimate of other values."""
        if self.estimated is not None and not self.running:
            self.estimated = None
            self.query_one("#run", Button).label = "Estimate"
            self.state("The form has changed: estimate again.")
            self._show_command()

    def ask_first(self, act: object) -> None:
        """Estimates at once; starts after a yes that names what leaves."""
        if self.estimated is None:
            self.run_command(self.words)
            return
        hosts = ", ".join(self.estimated.value["leaves"])
        leaves = (
            f"Tasks and answers are sent to {hosts}." if hosts else f"Leaves: {NOTHING_LEAVES}."
        )
        consequence = f"{leaves} Cap: {self._cap}. The run needs no window and can be stopped."
        dialog = ConfirmDialog("Start learning?", consequence, yes="Yes, start")
        self.app.push_screen(dialog, if_yes(lambda: self.run_command(self.words)))

    def succeeded(self, answer: Answer) -> None:
        """Shows the estimate, or the run that has started."""
        if "run" in answer.value:
            self._watch(str(answer.value["run"]))
            return
        self.estimated = answer
        figures = self.query_one("#figures")
        figures.remove_children()
        parts = estimate_parts(answer.value, self._cap, answer.lines)
        figures.mount_all([Static(shown, classes=look, markup=False) for look, shown in parts])
        button = self.query_one("#run", Button)
        button.label = "Start ..."
        button.focus()
        self._show_command()
        self.state("Estimated; no call was made. ctrl+s starts it, after a yes.", "good")

    def _watch(self, run: str) -> None:
        app = app_of(self)
        app.notify(f"run {run} has started", markup=False)
        # a worker of the app: this screen is closed on the way
        app.run_worker(app.action_watch(run))

    @property
    def _cap(self) -> str:
        values = self.values
        caps = [f"{values['usd']} USD"] if values["usd"] else []
        caps += [f"{values['tokens']} tokens"] if values["tokens"] else []
        return " and ".join(caps) or "5 USD; none for a model of this machine"

    def _words(self, values: Values) -> list[str]:
        verb = "estimate" if self.estimated is None else "train"
        words = [
            "experience",
            verb,
            values["tasks"] or "TASKS",
            "--model",
            values["model"] or "MODEL",
        ]
        for name, key in (("teacher", "teacher"), ("name", "name")):
            words += option(f"--{name}", values[key])
        words += ["--reward", values["reward"]] if values["reward"] not in {"", "auto"} else []
        words += option("--max-usd", values["usd"]) + option("--max-tokens", values["tokens"])
        return words if self.estimated is None else [*words, "--yes", "--detach"]
