"""Models side by side on the same prompt; one model alone is a plain conversation."""

import asyncio
import random
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Paste, Resize
from textual.widgets import Footer, Input, Static, TextArea

from zoo.gym.errors import GymError
from zoo.gym.terminal import visible
from zoo.gym.tui.chat import sources
from zoo.gym.tui.chat.answers import Columns
from zoo.gym.tui.chat.choosing import ChoosingScreen
from zoo.gym.tui.chat.compare import add_vote
from zoo.gym.tui.chat.prompt import PromptArea
from zoo.gym.tui.chat.server import Answer, ChatServer, request_body
from zoo.gym.tui.chat.side import Side
from zoo.gym.tui.chat.sources import Source
from zoo.gym.tui.chat.text import HELP, NONE, hint, server_text, titles, vote_text
from zoo.gym.tui.chat.turns import BLIND, Talk, Turn
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.widgets.bar import Bar

NARROW = 100
"""Below this width models and settings hide the columns, and are shown only when asked for."""

FLUSH_S = 0.2
"""How often answers that stream are written; each token alone would cost a core."""


class ChatScreen(ChoosingScreen):
    """Chooses models, sends them a prompt, and shows what they answer and how it differs."""

    HELP = HELP
    CSS_PATH = "chat.tcss"
    AUTO_FOCUS: ClassVar[str | None] = "#sources"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", key_display="Esc", priority=True),
        Binding("escape", "leave", "Leave the prompt", key_display="Esc", priority=True),
        Binding("a", "vote(0)", "A"),
        Binding("b", "vote(1)", "B"),
        Binding("equals_sign", "vote(-1)", "Equal", key_display="="),
        Binding("w", "write", "Write"),
        Binding("v", "blind", "Blind", tooltip="hide the names until you have voted"),
        Binding("m", "models", "Models", tooltip="show or hide models and settings"),
        Binding("o", "base", "Base", show=False, tooltip="choose the base model"),
        Binding("l", "lessons", "Lessons", tooltip="choose the lessons that a model answers with"),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the conversation"),
        Binding("ctrl+n", "new", "New", show=False, tooltip="begin a new conversation"),
        Binding("c", "copy_command", "Copy command", show=False, tooltip="copy zoo-gym serve ..."),
        Binding("x", "end_server", "End server", show=False, tooltip="end the server"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.talk = Talk()
        self.server: ChatServer | None = None
        self.is_blind = False
        self.random = random.Random()  # noqa: S311 - the order of two columns
        self.was_answering = False

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar()
        with Horizontal(id="body"):
            yield Side(id="side")
            with Vertical(id="main"):
                yield Static(id="effect", classes="problem", markup=False)
                yield Columns(id="columns")
                yield Static(id="vote", markup=False)
        with Vertical(id="ask", classes="panel") as ask:
            ask.border_title = "Prompt"
            yield PromptArea(placeholder="what do you want to ask?", id="prompt", compact=True)
        yield Static(id="problem", classes="problem", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Reads what is here."""
        self.read()
        self.set_interval(FLUSH_S, self._flush)

    def on_resize(self, event: Resize) -> None:
        """Hides models and settings where they would hide the answers."""
        self.set_class(event.size.width < NARROW, "-no-side")

    def on_unmount(self) -> None:
        """Ends the server, with the app."""
        if self.server is not None:
            self.server.end()

    def on_paste(self, event: Paste) -> None:
        """Adds a dropped delta or adapter as a column; other text goes to the prompt."""
        source = sources.file_source(pasted_path(event.text))
        if source is None:
            self.action_write()
            self.prompt.insert(event.text)
            return
        event.stop()
        added = self.available.add_file(source, self.sources)
        self.list_sources(chosen={*self.columns, added})

    def change_base(self, base: str) -> None:
        """Begins anew with another base."""
        self.base, self.is_blind = base, False
        self.available.forget_added()
        self._end_server()
        self.talk = Talk()

    def choose(self, chosen: set[Source]) -> None:
        """Shows a column for each source that is selected."""
        columns = tuple(source for source in self.sources if source in chosen)
        if columns != self.columns or not columns:
            self.columns = columns
            if len(columns) < 2 and self.is_blind:
                self._end_blind()
            self._draw()
        server = self.server
        if server is not None and server.variants != self._variants:
            self._end_server()
        self._show_server()

    @property
    def _variants(self) -> dict[str, str]:
        """What the server has to be told by name, of all sources that are selected."""
        listed = [source for source in self.sources if source.kind == "variant"]
        return sources.named_variants([*self.columns, *listed])

    # asking

    @on(PromptArea.Changed)
    def typing(self) -> None:
        """Loads the models while the prompt is typed."""
        if self.prompt.text and self.columns and self.server is None:
            self._start_server()

    @on(PromptArea.Submitted)
    def submitted(self, event: PromptArea.Submitted) -> None:
        """Sends the prompt to all columns."""
        prompt = event.text.strip()
        if not prompt or self._settings() is None:
            return
        if self.talk.is_answering:
            self.say("The answers are still coming: Esc stops them.")
        elif not self.columns:
            self.say(NONE)
        else:
            self.prompt.clear()
            self._begin(prompt)

    def _begin(self, prompt: str) -> None:
        self.say("")
        blind = None
        if self.is_blind:
            first, second = self.random.sample(self.columns, 2)
            blind = first, second
        asked = blind or self.columns
        turn = Turn(prompt, {source: Answer() for source in asked}, blind)
        self.talk.turns.append(turn)
        if self.server is None or self.server.state == "failed":
            self._start_server()
        if blind or not self.query_one(Columns).begin(turn, self.columns):
            self._draw()
        self.was_answering = True
        self.refresh_bindings()
        if self.has_class("-narrow"):
            self.add_class("-no-side")
        self._flush()

    def _start_server(self) -> None:
        self.server = ChatServer(self.base, self._variants)
        self.server.start()
        self._show_server()

    def _end_server(self) -> None:
        server, self.server = self.server, None
        self.talk.stop()
        if server is not None:
            self.run_worker(asyncio.to_thread(server.end), group="end")
        self._show_server()

    def _settings(self) -> dict[str, Any] | None:
        """Returns seed, temperature and most tokens; None, with a sentence, if one is wrong."""
        try:
            return self.side.settings
        except ValueError as error:
            self.say(str(error))
            return None

    def _send(self, turn: Turn, server: ChatServer) -> None:
        turn.sent = True
        settings = self._settings()
        for source, answer in turn.answers.items():
            if settings is None:
                answer.stop()
                continue
            messages = self.talk.messages(source, with_history=len(self.columns) == 1)
            answer.ask(server, request_body(source.model(server.name), messages, **settings))

    # showing

    def _flush(self) -> None:
        """Writes what has come since the last time."""
        turn, server = self.talk.current, self.server
        self._show_server()
        if turn is None or (turn.is_over and not self.was_answering):
            return
        if server is not None and not turn.sent and not turn.is_over:
            if server.state == "ready":
                self._send(turn, server)
            elif server.state == "failed" and server.error is not None:
                for answer in turn.answers.values():
                    answer.fail(server.error)
        over = turn.is_over  # read before the texts: what comes later is for the next time
        self._show_turn(turn)
        if self.was_answering == over:
            self.was_answering = not over
            self.refresh_bindings()
            if over:
                self._ended(turn)

    def _show_turn(self, turn: Turn) -> None:
        waiting = "waiting" if turn.sent else f"loading {self.base} ..."
        self.query_one(Columns).show(turn, self._shown, waiting)

    def _ended(self, turn: Turn) -> None:
        """Says what the answers amount to."""
        self._show_effect()
        self._show_vote()
        if turn.can_be_voted:
            self.query_one(Columns).focus_first()

    @property
    def _shown(self) -> tuple[Source, ...]:
        """The sources that have a column now."""
        if not self.is_blind:
            return self.columns
        turn = self.talk.current
        return (turn.blind or ()) if turn is not None else ()

    def _draw(self) -> None:
        """Makes the columns again, with all turns; in a blind vote with the newest one alone."""
        turn, shown = self.talk.current, self._shown
        is_hidden = self.is_blind and turn is not None and turn.is_hidden
        names = BLIND if is_hidden else titles(shown, self.base)
        text = hint(self.columns, self.sources, self.base, is_blind=self.is_blind)
        turns = self.talk.turns[-1:] if self.is_blind else self.talk.turns
        self.query_one(Columns).draw(dict(zip(shown, names, strict=True)), text, turns)
        self.was_answering = True  # so that the figures are written once more
        ask = self.query_one("#ask")
        ask.border_title = "Prompt" if len(self.columns) == 1 else "Prompt to all columns"
        self._show_effect()
        self._show_vote()
        self.refresh_bindings()

    def _show_effect(self) -> None:
        sentences = [] if self.is_blind else self.talk.effects(self.columns)
        effect = self.query_one("#effect", Static)
        effect.update("\n".join(sentences))
        effect.display = bool(sentences)

    def _show_vote(self) -> None:
        turn, vote = self.talk.current, self.query_one("#vote", Static)
        vote.display = self.is_blind
        vote.update(vote_text(turn, self.base) if self.is_blind else "")

    def _show_server(self) -> None:
        server = self.server
        text = server_text(server, self.base, self.command)
        if self.side.show_server(text, "off" if server is None else server.state):
            self.refresh_bindings()

    @property
    def prompt(self) -> PromptArea:
        """The field for the prompt."""
        return self.query_one(PromptArea)

    @property
    def command(self) -> str:
        """The command that serves what is selected."""
        return ChatServer(self.base, self._variants).command

    def say(self, text: str) -> None:
        """Shows what is wrong; an empty text hides it."""
        problem = self.query_one("#problem", Static)
        problem.update(visible(text))
        problem.display = bool(text)

    # keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what does something now."""
        turn = self.talk.current
        offered = {
            "stop": self.talk.is_answering,
            "leave": isinstance(self.focused, Input | TextArea) and not self.talk.is_answering,
            "write": not isinstance(self.focused, PromptArea),
            "vote": self.is_blind and turn is not None and turn.can_be_voted,
            "blind": len(self.columns) > 1 and not self.talk.is_answering,
            "lessons": bool(self.available.libraries["libraries"])
            and not (self.talk.is_answering or self.is_blind),
            "copy": bool(self.talk.turns),
            "new": bool(self.talk.turns),
            "end_server": self.server is not None and self.server.state != "off",
        }
        return offered.get(action, True)

    def action_stop(self) -> None:
        """Stops the answers; the requests are closed, so that the server stops, too."""
        self.talk.stop()
        self._flush()

    def action_leave(self) -> None:
        """Leaves a field, so that letters are keys again."""
        columns = self.query_one(Columns)
        if columns.columns and columns.region:
            columns.focus_first()
        else:
            self.side.listing.focus()

    def action_write(self) -> None:
        """Goes to the prompt."""
        self.prompt.focus()

    def action_models(self) -> None:
        """Shows or hides models and settings."""
        hidden = self.has_class("-no-side")
        self.set_class(not hidden, "-no-side")
        if hidden:
            self.side.listing.focus()
        else:
            self.action_write()

    def action_blind(self) -> None:
        """Hides the names for a vote, or shows them again."""
        if self.is_blind:
            self._end_blind()
        else:
            self.is_blind = True
            self.action_write()
        self._draw()

    def _end_blind(self) -> None:
        """Shows the names again; what was not voted on cannot be any more."""
        self.is_blind = False
        if (turn := self.talk.current) is not None and turn.is_hidden:
            turn.blind = None

    def action_vote(self, which: int) -> None:
        """Keeps a vote, and shows the names."""
        turn = self.talk.current
        if turn is None or turn.blind is None or not turn.can_be_voted:
            return
        models = [source.model(self.base) for source in turn.blind]
        try:
            add_vote(models[0], models[1], None if which < 0 else models[which])
        except GymError as error:
            self.say(f"The vote was not kept: {error.message}")
            return
        turn.voted = True
        self.query_one(Columns).retitle(titles(turn.blind, self.base))
        self._show_turn(turn)
        self._show_vote()
        self.refresh_bindings()

    def action_copy(self) -> None:
        """Copies the conversation as text."""
        self.app.copy_to_clipboard(self.talk.text(self.columns))
        self.notify("Copied the conversation")

    def action_copy_command(self) -> None:
        """Copies the command of the server."""
        self.app.copy_to_clipboard(self.command)
        self.notify("Copied the command")

    def action_new(self) -> None:
        """Begins a new conversation."""
        self.action_stop()
        self.talk = Talk()
        self._draw()
        self.action_write()

    def action_end_server(self) -> None:
        """Ends the server; the next prompt starts it again."""
        self._end_server()
        self._flush()
