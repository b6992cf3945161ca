"""The tab of lessons: what models learned as text in their prompt."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from zoo.gym.humanize import counted
from zoo.gym.tui.chat.sources import canonical
from zoo.gym.tui.machine import available_models
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.share.action import Action, Field, Question, Values, option
from zoo.gym.tui.share.asking import Answer, ask_lines
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.learn import LearnScreen
from zoo.gym.tui.share.lesson_forms import distilling, exporting, importing
from zoo.gym.tui.share.lessons import diff_parts, library_parts, verdict_of
from zoo.gym.tui.share.pane import SharePane
from zoo.gym.tui.share.rounds import Json
from zoo.gym.tui.share.words import Part

MEASURED = (
    Field("tasks", "Tasks that nothing was learned from", placeholder="other.jsonl", is_path=True),
    Field("model", "Model that answers", placeholder="http://HOST/v1#NAME or zen-nano"),
    Field("tokens", "Cap in tokens", placeholder="none", optional=True),
)

ROW_ACTIONS = {"chat", "distill", "export", "gate", "prune", "remove"}
"""The actions about the library under the cursor."""


class LessonsPane(SharePane[Json]):
    """The libraries of lessons."""

    KIND = "Lessons"
    COLUMNS = ("library", ">version", ">lessons", "verdict")
    READING = "Reading the libraries ..."
    EMPTY = """\
A lesson is a sentence that stands in a model's prompt because it was measured to help. No weights \
change, so lessons also work for models on a server.

For example, from 100 parcels with their right prices a model learned: Round the weight up to full \
kilos first. Each lesson passes a gate on tasks that it was not learned from.

Press l to learn lessons from a file of tasks; the estimate of calls and money comes first. Press \
i to read lessons that somebody else has learned.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "learn", "Learn", tooltip="learn lessons; the estimate comes first"),
        Binding("d", "diff", "Compare", show=False, tooltip="compare two versions"),
        Binding("i", "import", "Import", tooltip="read lessons from a file"),
        Binding("e", "export", "Export", show=False, tooltip="write the lessons to a file"),
        Binding("w", "distill", "Weights", show=False, tooltip="train a model to need no lessons"),
        Binding("m", "gate", "Measure", show=False, tooltip="measure the library on other tasks"),
        Binding("p", "prune", "Prune", show=False, tooltip="drop lessons that do not help"),
        Binding("b", "rollback", "Roll back", show=False, tooltip="use an earlier version"),
        Binding("D", "remove", "Delete", show=False, tooltip="delete it or a version; asks first"),
        Binding("c", "chat", "Chat", tooltip="talk with a model with and without these lessons"),
    ]

    async def read(self) -> list[Json]:
        """Returns the libraries."""
        return list((await ask_lines(["experience", "list"])).value["libraries"])

    def key_of(self, row: Json) -> str:
        """Returns name and version."""
        return f"{row['name']}@{row['version']}"

    def cells(self, row: Json) -> tuple[str, ...]:
        """Returns name, versions, number of lessons and verdict."""
        version = f"{row['version']} of {len(row['versions'])}"
        verdict = verdict_of(row.get("evidence") or {})
        return str(row["name"]), version, str(row["lessons"]), verdict

    async def details(self, row: Json) -> list[Part]:
        """Returns what was measured, and the lessons."""
        return library_parts((await ask_lines(["experience", "show", self.key_of(row)])).value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done to the library under the cursor."""
        del parameters
        row = self.current
        if action in {"diff", "rollback"}:
            return row is not None and len(row["versions"]) > 1
        return action not in ROW_ACTIONS or row is not None

    def on_data_table_row_selected(self) -> None:
        """Compares two versions, if there are two."""
        if self.check_action("diff", ()):
            self.action_diff()
        else:
            self.notify("It has one version: l learns another one")

    def action_learn(self) -> None:
        """Opens the form that estimates and learns."""
        self.app.push_screen(LearnScreen())

    def action_import(self) -> None:
        """Opens the form that reads lessons from a file."""
        self.open_form(importing())

    def action_export(self) -> None:
        """Opens the form that writes the library to a file."""
        if (row := self.current) is not None:
            self.open_form(exporting(self.key_of(row)))

    def action_distill(self) -> None:
        """Opens the form that turns the lessons to weights; the run is shown once it starts."""
        if (row := self.current) is not None:
            self.app.push_screen(FormScreen(distilling(self.key_of(row)), self._watch))

    def _watch(self, answer: Answer) -> None:
        app = app_of(self)
        # a worker of the app: the form is closed on the way
        app.run_worker(app.action_watch(str(answer.value["run"])))

    def action_chat(self) -> None:
        """Opens Chat with the base beside the base with these lessons."""
        if (row := self.current) is not None:
            self.open_chat(base=_local(row.get("model")), lessons=[str(row["name"])])

    def action_diff(self) -> None:
        """Opens the comparison of two versions."""
        if (row := self.current) is None:
            return
        name, versions = str(row["name"]), row["versions"]
        choices = [(f"version {one}", f"{name}@{one}") for one in versions]
        fields = (
            Field("before", "Before", choices[-2][1], choices=choices),
            Field("after", "After", choices[-1][1], choices=choices),
        )
        text = "Shows the lessons that went (-) and those that came (+)."
        self.open_form(
            Action(f"compare versions of {name}", text, "Compare",
                   lambda v: ["experience", "diff", v["before"], v["after"]], fields,
                   done=lambda answer: "\n".join(diff_parts(answer.value)))
        )  # fmt: skip

    def action_gate(self) -> None:
        """Opens the measurement of a library."""
        text = "Measures the library against none, on tasks that nothing was learned from; what "
        text += "passes becomes the evidence of a new version. Each repetition is another chance "
        text += "to pass by luck."
        self._measure("gate", text)

    def action_prune(self) -> None:
        """Opens what drops lessons of no help."""
        text = "Leaves each lesson out in turn, on tasks near it, and stores the library without "
        text += "those that did not help as a new version."
        self._measure("prune", text)

    def action_rollback(self) -> None:
        """Opens the return to an earlier version."""
        if (row := self.current) is None:
            return
        name = str(row["name"])
        choices = [(f"version {one}", str(one)) for one in row["versions"]]
        field = Field("version", "Version to use", choices=choices)
        text = "Uses another version from then on. No version is lost."
        self.open_form(
            Action(f"roll back {name}", text, "Use it",
                   lambda v: ["experience", "rollback", name, v["version"]], (field,))
        )  # fmt: skip

    def action_remove(self) -> None:
        """Opens the deletion, which asks first."""
        if (row := self.current) is None:
            return
        name, count = str(row["name"]), counted(len(row["versions"]), "version")
        choices = [(f"all of it, {count}", name)]
        choices += [(f"version {one}", f"{name}@{one}") for one in row["versions"]]
        field = Field("what", "What is deleted", choices=choices)
        self.open_form(
            Action(f"delete lessons of {name}", "Deletes a version, or all of them.", "Delete",
                   lambda v: ["experience", "remove", v["what"], "--yes"], (field,),
                   question=_deletion)
        )  # fmt: skip

    def _measure(self, verb: str, text: str) -> None:
        if (row := self.current) is None:
            return
        name = str(row["name"])

        def words(values: Values) -> list[str]:
            chosen = ["--model", values["model"], *option("--max-tokens", values["tokens"])]
            return ["experience", verb, name, values["tasks"], *chosen, "--yes"]

        def question(values: Values) -> Question:
            consequence = f"The tasks are sent to {values['model']}: a model of this machine sends "
            consequence += "nothing away. Repeat the command if it ends early: answers are kept."
            return Question(f"Start to {verb} {name}?", consequence, "Yes, start")

        action = Action(f"{verb} {name}", text, verb.capitalize(), words, MEASURED, question)
        self.open_form(action)


def _local(model: object) -> str:
    """Returns the name of a model of this machine; empty for another one."""
    here = {canonical(name): name for name, _ in available_models()}
    return here.get(canonical(str(model)), "") if model else ""


def _deletion(values: Values) -> Question:
    consequence = "The lessons and what was measured of them are deleted. This cannot be undone."
    return Question(f"Delete {values['what']}?", consequence, "Yes, delete it")
