"""One run, live: its state, its curve, its figures, and the keys that control it."""

import asyncio
from pathlib import Path
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Static

from zoo.gym.errors import GymError
from zoo.gym.jobs import (
    Ended,
    EventReader,
    Kind,
    Run,
    is_finishing,
    kind_of,
    list_runs,
    read_ended,
    reconcile,
)
from zoo.gym.jobs.listing import stored_yaml
from zoo.gym.jobs.state import has_worker
from zoo.gym.paths import folders
from zoo.gym.terminal import visible
from zoo.gym.train.planning.smaller import OUT_OF_MEMORY
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.runs import actions as run_actions
from zoo.gym.tui.runs import lessons_text
from zoo.gym.tui.runs.chart import LossChart
from zoo.gym.tui.runs.charts import Charts
from zoo.gym.tui.runs.controls import ControlScreen
from zoo.gym.tui.runs.history import History, meaning
from zoo.gym.tui.runs.lessons_run import LessonsRun, names_of
from zoo.gym.tui.runs.names import run_names
from zoo.gym.tui.runs.text import (
    headline,
    last_notes,
    meters,
    newest_answers,
    watched_metrics,
    what_next,
)
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.meters import Meters, bar

MOST_OVERLAYS = 30
"""The newest runs that can be drawn beside one."""

_CHECK_EVERY = 4  # the process is checked at every fourth read of the log


class RunScreen(ControlScreen):
    """Follows a run by its event log, from its first step on, whoever started it.

    Args:
        run_id: the run's id.
    """

    HELP = """
The chart shows the loss of every step (dotted line) and of the held-out examples (x). \
In supervised training it is how badly the model predicts the next token of an answer, \
in nats per token; other methods minimise a value of their own.

Lower is better. Only the held-out loss shows whether the model also got better \
at examples that it was not trained on.

The run does not need this window: you can close it and open the run again later.
"""
    CSS_PATH = "run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "chat", "Compare", tooltip="chat with it beside its base"),
        Binding("e", "export", "Export", tooltip="for Ollama, llama.cpp and others"),
        Binding("l", "log", "Log"),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the state with its messages"),
        Binding("left_square_bracket", "figure(-1)", "Chart before", show=False, key_display="["),
        Binding(
            "right_square_bracket",
            "figure(1)",
            "Next chart",
            show=False,
            key_display="]",
            tooltip="draw another figure: reward, learning rate ...",
        ),
        Binding("o", "overlay", "Overlay", show=False, tooltip="draw another run beside this one"),
        Binding("i", "diff", "Differences", show=False, tooltip="settings that differ from it"),
        Binding("a", "answers", "Answers", show=False, tooltip="sampled answers, by group (RL)"),
        Binding("M", "retry", "Smaller", tooltip="a new run that needs less memory; asks first"),
        Binding("escape", "app.pop_screen", "Back", key_display="Esc"),
    ]

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run = Run(folders().runs / run_id)
        self.history = History()
        self._reader = EventReader(self.run.events.path)
        self._kind: Kind = kind_of(self.run)
        self.own_help = lessons_text.HELP if self._kind == "lessons" else ""
        self._about = LessonsRun()
        self.charts = Charts(self.run)
        self._fault = self._model = ""
        self._reads = 0
        self._pending: str | None = None
        self._shown = ""
        self._offered = ""
        self._ended: Ended | None = None
        self._finishing = False
        self._parts: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar(self.run.id)
        yield Static("Reading the run ...", id="state", markup=False)
        yield Static(id="progress", markup=False)
        with Horizontal(id="middle"):
            yield LossChart(id="curve")
            with VerticalScroll(id="body", classes="panel") as body:
                body.border_title = "Lessons"
                yield Static(id="lessons", markup=False)
            with Vertical(id="side", classes="panel") as side:
                side.border_title = "Now"
                yield Meters(id="meters")
                yield Static(id="metrics", markup=False)
                yield Static(id="meaning", markup=False)
        yield Static(id="answers", markup=False)
        yield Static(id="notes", markup=False)
        yield Static(id="next", markup=False)
        yield Footer(show_command_palette=False)

    async def on_mount(self) -> None:
        """Starts to follow the run."""
        if self._kind == "lessons":
            self.query_one(LossChart).display = False
            self.query_one("#body").display = True
        self._follow()

    def on_resize(self) -> None:
        """Draws the screen again: the length of the bar depends on the width."""
        if self.is_mounted:  # the first size arrives before the parts of the screen exist
            self.call_after_refresh(self._show)

    def controlled(self) -> tuple[Run, str] | None:
        """Returns the run, which its keys act on."""
        return self.run, self.history.status.state

    def renamed(self) -> None:
        """Shows the new name."""
        if self.is_running:
            self._show_title()

    def removed(self) -> None:
        """Closes the screen of a run that was deleted."""
        if self.app.screen is self:
            self.app.pop_screen()

    def action_figure(self, by: int) -> None:
        """Draws the next figure, or the one before."""
        if self._kind != "lessons":
            self.charts.step(by)
            self._redraw()

    @work
    async def action_overlay(self) -> None:
        """Draws another run beside this one; chosen again, it goes."""
        from zoo.gym.tui.dialogs.choose import ChooseDialog

        rows = [row for row in await asyncio.to_thread(list_runs) if row.id != self.run.id]
        names = await asyncio.to_thread(run_names, rows[:MOST_OVERLAYS])
        choices = [
            (row.id, f"{row.id} {names.get(row.id, '')}".rstrip(), f"{row.model}, {row.state}")
            for row in rows[:MOST_OVERLAYS]
        ]
        if not choices:
            self.notify("There is no other run to draw beside this one")
            return
        chosen = await self.app.push_screen_wait(ChooseDialog("Draw beside this run", choices))
        if chosen is not None:
            self.charts.overlay(Run(folders().runs / chosen))
            self._redraw()

    def action_diff(self) -> None:
        """Shows what differs from the run that is drawn beside this one."""
        if self.charts.other is None:
            self.notify("Press o first: it chooses the run to compare with")
        else:
            app_of(self).action_command(f"runs diff {self.charts.other.id} {self.run.id}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers smaller steps to a run that did not fit into memory, and what its state allows."""
        if action == "retry":
            return self.history.status.code in OUT_OF_MEMORY
        if action in {"chat", "export"} and self._kind == "lessons":
            return False  # it has no weights; Share opens Chat with its library
        return super().check_action(action, parameters)

    def action_retry(self) -> None:
        """Starts a new run that learns the same in smaller steps, after a yes."""
        run_actions.retry(app_of(self), self.run)

    def action_answers(self) -> None:
        """Shows the sampled answers."""
        from zoo.gym.tui.runs.answers import GroupsScreen

        self.app.push_screen(GroupsScreen(self.run))

    async def action_chat(self) -> None:
        """Opens Chat with this run beside its base."""
        await app_of(self).action_compare([self.run.id])

    def action_export(self) -> None:
        """Opens the choice of formats."""
        from zoo.gym.tui.runs.export import ExportScreen

        self.app.push_screen(ExportScreen(self.run.id))

    @work(exclusive=True, group="charts")
    async def _redraw(self) -> None:
        await asyncio.to_thread(self.charts.read)
        self._show()

    def action_log(self) -> None:
        """Shows what the worker printed."""
        from zoo.gym.tui.runs.log import LogScreen

        self.app.push_screen(LogScreen(self.run))

    def action_copy(self) -> None:
        """Copies the state with its messages and the next steps to the clipboard."""
        self.app.copy_to_clipboard(self._shown)
        self.notify("Copied")

    @work
    async def _follow(self) -> None:
        self._model = await asyncio.to_thread(title_of, self.run, self._kind)
        self._show_title()
        await self._read()
        self._show()
        while True:
            await asyncio.sleep(app_of(self).redraw_s)
            if await self._read():
                self._show()

    def _show_title(self) -> None:
        name = f"{self.run.id} {self.run.name or ''}".rstrip()
        self.query_one(Bar).show(f"{name}  {self._model}")

    async def _read(self) -> bool:
        """Reads what is new, and says whether the screen has to be drawn again."""
        self._reads += 1
        status, pending = self.history.status, self.run.control.pending()
        if status.live and self._reads % _CHECK_EVERY == 0 and not has_worker(self.run):
            await asyncio.to_thread(self._mark_dead)
        fault = await asyncio.to_thread(self._take)
        more = self._kind != "training" and await asyncio.to_thread(self._read_lessons)
        await asyncio.to_thread(self.charts.read)
        changed = more or fault is None or pending != self._pending or fault != self._fault
        self._pending, self._fault = pending, fault or ""
        if changed:
            state, live = self.history.status.state, self.history.status.live
            self._ended = None if live else await asyncio.to_thread(read_ended, self.run.folder)
            self._finishing = await asyncio.to_thread(is_finishing, self.run, state)
        return changed

    def _take(self) -> str | None:
        """Reads new events: returns None, "" where there are none, or why they cannot be read."""
        try:
            events = self._reader.read()
        except OSError as error:
            return f"This run cannot be read: {error}"
        if self._reader.restarted:
            self.history = History()
        elif not events:
            return ""
        self.history.take(events)
        return None

    def _read_lessons(self) -> bool:
        """Reads what a run about lessons has beside its events; says whether it is any."""
        try:
            return self._about.read(self.run)
        except OSError as error:
            self.history.notes.append(f"This run cannot be read: {error}")
            return False

    def _mark_dead(self) -> None:
        try:
            reconcile(self.run)
        except GymError as error:
            self.history.notes.append(str(error))

    def _show(self) -> None:
        with self.app.batch_update():
            self._show_parts(self.history)
        if self._offered != self.history.status.state:
            self._offered = self.history.status.state
            self.refresh_bindings()

    def _show_parts(self, history: History) -> None:
        status = history.status
        head, following, explained = self._texts(history)
        head = self._fault or head
        self._write("#state", head)
        self._write("#progress", bar(status.step, status.steps, self.size.width - 2))
        if self._kind == "lessons":
            self._write("#lessons", lessons_text.lessons_body(history, self._about))
            self.query_one(Meters).show(lessons_text.lessons_meters(history, self._about))
        else:
            self.charts.draw(self.query_one(LossChart), history)
            self.query_one(Meters).show(meters(history))
        between = "\n" if self.has_class("-wide") else "   "  # beside the chart or below it
        self._write("#metrics", between.join(watched_metrics(history)))
        self._write("#meaning", explained)
        is_low = self.size.height < 28
        self._write("#answers", newest_answers(history, 1 if is_low else 3, self.size.width))
        self._write("#notes", last_notes(history, 3 if is_low else 6))
        self._write("#next", following)
        self._shown = visible("\n".join([head, *history.notes, following]))

    def _texts(self, history: History) -> tuple[str, str, str]:
        """Returns the sentence at the top, what to do next, and what the figures mean."""
        head = headline(history, self._pending, self._ended, finishing=self._finishing)
        following = what_next(history, self.run, self._ended)
        if self._kind == "lessons":
            head = lessons_text.lessons_headline(history, self._pending)
            return head, lessons_text.lessons_next(history, self.run, self._about.names), ""
        if self._kind == "distillation":
            head = lessons_text.distillation_headline(history) or head
            if history.status.state == "done":
                following = lessons_text.distillation_next(history, self.run)
            verdict = lessons_text.distillation_verdict(history)
            return head, following, verdict or meaning(history, measures_later=True)
        return head, following, meaning(history)

    def _write(self, part: str, text: str) -> None:
        """Updates a part of the screen if its text changed; an empty one is hidden."""
        text = visible(text)
        if self._parts.get(part) == text:
            return
        previous, self._parts[part] = self._parts.get(part), text
        widget = self.query_one(part, Static)
        # a layout pass costs a second drawing: only where the number of lines may change
        room = self.size.width - 2 if part in {"#state", "#progress"} else 0
        fits = previous and text and max(len(previous), len(text)) <= room
        widget.update(text, layout=not fits)
        widget.display = bool(text)


def title_of(run: Run, kind: Kind) -> str:
    """Returns what a run is about in a few words."""
    match kind:
        case "lessons":
            return lessons_text.lessons_title(names_of(run))
        case "distillation":
            return lessons_text.distillation_title(names_of(run))
        case "training":
            return model_of(run)


def model_of(run: Run) -> str:
    """Returns model, method and data in a few words, as the settings name them."""
    settings, fault = stored_yaml(run)
    if fault is not None:
        return "(its settings cannot be read)"
    model = str(settings.get("model_name_or_path", "?")).partition("@")[0]
    data = settings.get("dataset")
    names = data if isinstance(data, list) else [data]
    files = ", ".join(Path(str(name)).name for name in cast("list[object]", names))
    return f"{model}, {settings.get('finetuning_type', 'lora')}, {files}"
