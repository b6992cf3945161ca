"""The tab of rounds."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from zoo.gym.errors import GymError
from zoo.gym.terminal import visible
from zoo.gym.tui.share.action import Action, Field, Question, Values
from zoo.gym.tui.share.asking import Answer, ask_lines
from zoo.gym.tui.share.contribute import ContributeScreen
from zoo.gym.tui.share.deltas import done_runs
from zoo.gym.tui.share.pane import SharePane
from zoo.gym.tui.share.round_forms import creation, lessons_creation, measuring, voiding
from zoo.gym.tui.share.rounds import (
    KINDS,
    LESSONS,
    Json,
    published,
    round_parts,
    short_id,
    verdict,
)
from zoo.gym.tui.share.words import Part

PHASES_OF = {
    "contribute": {"commit"},
    "reveal": {"reveal"},
    "sync": {"commit", "reveal"},
    "close": {"commit", "reveal"},
    "measure": {"compute"},
    "aggregate": {"compute"},
    "void": {"commit", "reveal", "compute"},
    "verify": {"published"},
    "apply": {"published"},
    "undo": {"published"},
}
"""The phases in which each action is possible."""

ROLES = dict.fromkeys(("sync", "close", "aggregate", "void"), "maker") | {"measure": "gate"}
"""The role that an action needs."""


class RoundsPane(SharePane[Json]):
    """The rounds that were seen on this machine."""

    KIND = "Rounds"
    COLUMNS = ("name", "phase", "you")
    READING = "Reading the rounds ..."
    EMPTY = """\
In a round several people contribute fine-tunes of one base, and get one better small file. They \
commit before they reveal, so nobody can copy; everybody can compute the result again, to the byte.

For example, three people who trained on their own mails share a folder: one creates the round \
there, each contributes, and no mail leaves anybody's machine.

Press c to create a round of fine-tunes, C to create one of lessons, or o to open one that \
somebody else created, by its folder or address.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "create", "Create", tooltip="create a round"),
        Binding(
            "C",
            "create_lessons",
            "Create of lessons",
            show=False,
            tooltip="create a round of lessons",
        ),
        Binding("o", "open", "Add", show=False, tooltip="open a round by its folder or address"),
        Binding("s", "contribute", "Contribute", tooltip="contribute to the round; asks first"),
        Binding("v", "reveal", "Reveal", tooltip="send what you committed to; asks first"),
        Binding("t", "sync", "Take", show=False, tooltip="add what others left to the log"),
        Binding("x", "close", "Close", tooltip="take, and begin the next phase"),
        Binding("m", "measure", "Measure", tooltip="measure what was revealed; asks first"),
        Binding("a", "aggregate", "Result", tooltip="compute and publish the result"),
        Binding("V", "verify", "Verify", tooltip="compute it again here and compare"),
        Binding("p", "apply", "Apply", tooltip="make the result a base, or a library of lessons"),
        Binding("u", "undo", "Undo", show=False, tooltip="go back to the result before"),
        Binding("X", "void", "Void", show=False, tooltip="make the round void; asks first"),
    ]

    async def read(self) -> list[Json]:
        """Returns the rounds."""
        return list((await ask_lines(["round", "list"])).value["rounds"])

    def key_of(self, row: Json) -> str:
        """Returns the id of a round."""
        return str(row["round"])

    def title_of(self, row: Json) -> str:
        """Returns its name."""
        return f"Round {row['name']}"

    def cells(self, row: Json) -> tuple[str, ...]:
        """Returns name, phase and roles."""
        yours = ", ".join(row["yours"]) or "-"
        return str(row["name"]), row["phase"] or "not seen", yours

    async def details(self, row: Json) -> list[Part]:
        """Returns what a round waits for, and who takes part."""
        answer = await ask_lines(["round", "show", self.key_of(row)])
        return round_parts(answer.value, answer.lines, str(row["address"]))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers what the phase of the round under the cursor allows."""
        del parameters
        if action not in PHASES_OF:
            return True
        row = self.current
        if row is None or row["phase"] not in PHASES_OF[action]:
            return False
        if action == "undo" and row["kind"] == LESSONS:
            return False  # a library is rolled back in Lessons
        return action not in ROLES or ROLES[action] in row["yours"]

    def on_data_table_row_selected(self) -> None:
        """Does the next step of the round."""
        for action in ("contribute", "reveal", "measure", "aggregate", "verify"):
            if self.check_action(action, ()):
                getattr(self, f"action_{action}")()
                return

    def action_create(self) -> None:
        """Opens the form of a new round."""
        self.open_form(creation())

    def action_create_lessons(self) -> None:
        """Opens the form of a new round of lessons."""
        self.open_form(lessons_creation())

    def action_open(self) -> None:
        """Opens a round by its address."""
        text = "Shows a round and remembers it: a folder on a share or a stick, or an address "
        text += "https://HOST/rounds/NAME."
        field = Field("place", "Folder or address", placeholder="/mnt/share/summer")
        action = Action("open a round", text, "Open", _open_words, (field,), done=_opened)
        self.open_form(action)

    def action_contribute(self) -> None:
        """Opens the page of a contribution."""
        if (row := self.current) is None:
            return
        if row["kind"] == LESSONS:
            self.screen.run_worker(self._contribute_lessons(row))
        else:
            runs = [(f"{run.id}  {run.model or ''}", run.id) for run in done_runs()]
            self.app.push_screen(ContributeScreen(row, runs))

    async def _contribute_lessons(self, row: Json) -> None:
        try:
            libraries = (await ask_lines(["experience", "list"])).value["libraries"]
        except GymError as error:
            self.notify(error.message, severity="error", markup=False)
            return
        names = [f"{each['name']}@{each['version']}" for each in libraries]
        self.app.push_screen(ContributeScreen(row, [(visible(name), name) for name in names]))

    def action_reveal(self) -> None:
        """Opens the reveal, which asks before it sends."""
        if (row := self.current) is None:
            return
        what = KINDS.get(str(row["kind"]), "weights")
        text = f"Sends the {what} that you committed to. Everybody with access to the round reads "
        text += "them from now on; this cannot be taken back."
        question = Question(
            f"Send the {what} now?",
            "The file that you committed to leaves this machine. No example does.",
            "Yes, send",
        )
        self._simple("reveal", text, "Reveal", ["--send"], question=question)

    def action_sync(self) -> None:
        """Opens what takes the contributions that others left."""
        text = "Adds what others left to the log of your round; who was refused is printed "
        text += "with the reason."
        self._simple("sync", text, "Take", [])

    def action_close(self) -> None:
        """Opens what ends a phase."""
        text = "Takes what others left and ends the phase now, whatever its deadline is. With "
        text += "fewer contributors than agreed the phase is extended once, then the round is void."
        question = Question(
            "End this phase now?", "Who has not sent anything yet comes too late.", "Yes, end it"
        )
        self._simple("sync", text, "Close", ["--close", "--yes"], question=question)

    def action_measure(self) -> None:
        """Opens the measurement of what was revealed."""
        if (row := self.current) is not None:
            self.open_form(measuring(row))

    def action_void(self) -> None:
        """Opens what ends a round without a result."""
        if (row := self.current) is not None:
            self.open_form(voiding(row))

    def action_aggregate(self) -> None:
        """Opens what publishes the result."""
        text = "Combines what was revealed by the rule of the terms, and publishes the result "
        text += "with the weight of each contribution and each refusal."
        self._simple("aggregate", text, "Compute", [], done=lambda answer: published(answer.value))

    def action_verify(self) -> None:
        """Opens the verification."""
        text = "Computes the round again on this machine, from the signed log alone, and compares "
        text += "each figure and each byte."
        self._simple("verify", text, "Verify", [], done=lambda answer: verdict(answer.value))

    def action_apply(self) -> None:
        """Opens what makes the result a base."""
        if (row := self.current) is None:
            return
        if row["kind"] == LESSONS:
            text = "Verifies the round, and stores its lessons as a new version of a library."
            self._simple("apply", text, "Apply", [], done=_applied)
            return
        text = "Verifies the round, and writes base plus result as a model folder to train and "
        text += "chat with. Undo goes back."
        self._simple("apply", text, "Apply", ["--offline"], done=_applied)

    def action_undo(self) -> None:
        """Opens what goes back to the result before."""
        text = "Goes back to the result that was applied before; no model folder is deleted."
        action = Action("undo the last apply", text, "Undo", lambda _: ["round", "undo"])
        self.open_form(action)

    def _simple(
        self,
        verb: str,
        text: str,
        button: str,
        more: list[str],
        *,
        question: Question | None = None,
        done: Callable[[Answer], str] = lambda answer: "Done. Esc goes back.",
    ) -> None:
        """Opens the form of a command about the round under the cursor, without fields."""
        row = self.current
        if row is None:
            return
        words = ["round", verb, short_id(row), *more]
        title = f"{verb} round {row['name']}"

        def ask(_: Values) -> Question | None:
            return question

        self.open_form(Action(title, text, button, lambda _: words, question=ask, done=done))


def _open_words(values: Values) -> list[str]:
    return ["round", "show", values["place"]]


def _opened(answer: Answer) -> str:
    return f"It is in the list now, in phase {answer.value['phase']}. Esc goes back."


def _applied(answer: Answer) -> str:
    return f"Verified and written: {answer.value['file']}"
