"""Measures a source: loads it once for all measures, and only if answers are missing."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from zoo.gym.chat import ChatSession, open_chat
from zoo.gym.data.rows import make_encoder
from zoo.gym.errors import InputError
from zoo.gym.evaluate.answering import Ask, answered, answers_file, ask_session, settings_of
from zoo.gym.evaluate.endpoint import Spending, ask_server, check_same_model
from zoo.gym.evaluate.items import Item, Line, Measure
from zoo.gym.evaluate.results import Result, result_of
from zoo.gym.evaluate.sources import Contender
from zoo.gym.evaluate.stored import folder_of, store
from zoo.gym.files import read_json_object
from zoo.gym.humanize import counted

Show = Callable[[str], None]


@dataclass
class Opened:
    """A source that is loaded when it is asked for the first time.

    Attributes:
        contender: the source.
        say: gets a note when it is loaded.
        spending: the caps on calls to a server.
        stack: ends the model.
        loaded: the model, once it is loaded.
    """

    contender: Contender
    say: Show
    spending: Spending
    stack: ExitStack = field(default_factory=ExitStack)
    loaded: ChatSession | None = None

    @property
    def session(self) -> ChatSession:
        """The loaded model."""
        if self.loaded is None:
            which = self.contender
            assert which.base is not None
            self.say(f"loading {which.name}")
            opened = open_chat(
                which.base, adapter=which.adapter, delta=which.delta, system=which.system
            )
            self.loaded = self.stack.enter_context(opened)
            if which.joint is not None:
                self.loaded.options = replace(self.loaded.options, joint=which.joint)
        return self.loaded

    def asks(self, measure: Measure, answers: Path) -> Ask:
        """Returns what asks it the items of a measure, whose answers are kept in a file."""
        if (server := self.contender.server) is not None:
            journal = answers.with_suffix(".journal")
            return ask_server(server, measure, self.spending, journal)

        def ask(items: Sequence[Item], first: int, date: str) -> Iterable[Line]:
            return ask_session(self.session, measure)(items, first, date)

        return ask

    def checks(self, measure: Measure, answers: Path) -> Callable[[Sequence[Line]], None]:
        """Returns what refuses to reuse answers if an address has another model by now."""
        server = self.contender.server

        def check(lines: Sequence[Line]) -> None:
            if server is not None and not server.provider_name:
                check_same_model(server, measure, self.spending, answers, lines)

        return check

    def form(self, measure: Measure) -> str:
        """Returns how prompts are written, in words."""
        if self.contender.server is not None:
            return "the chat template of the server"
        return form_of(self.session, measure)


def measure_source(
    contender: Contender,
    measures: Sequence[Measure],
    say: Show,
    show: Show,
    spending: Spending | None = None,
    first: Sequence[Result] = (),
) -> list[Result]:
    """Returns the figures of a source, a result a measure, and stores them.

    Args:
        contender: the source.
        measures: what it is measured on.
        say: gets notes.
        show: gets the progress.
        spending: the caps on calls to servers.
        first: the results of the source that it is compared with; empty for none.

    Raises:
        GymError: the model cannot be loaded, answers no row, or an answer cannot be stored.
    """
    model, folder = contender.digests, folder_of(contender.run)
    results: list[Result] = []
    with ExitStack() as stack:
        opened = Opened(contender, say, spending or Spending(), stack)
        for measure, other in zip_longest(measures, first):
            settings = settings_of(measure, model)
            path = answers_file(folder, measure, settings)
            progress = _progress(contender, measure, show)
            ask, check = opened.asks(measure, path), opened.checks(measure, path)
            lines, counts = answered(path, measure, settings, ask, progress, check)
            say(f"{contender.name}: {measure.name}: {counts}")
            _require_answers(contender, measure, lines)
            stored = read_json_object(path.with_suffix(".json")) or {}
            form = str(stored.get("form") or opened.form(measure))
            result = result_of(contender.name, measure, lines, form)
            store(result, path, other)
            results.append(result)
    return results


def _require_answers(contender: Contender, measure: Measure, lines: Sequence[Line]) -> None:
    """Refuses a figure of rows that all have no answer.

    Raises:
        InputError: there is none.
    """
    errors = [line["error"] for line in lines if "error" in line]
    if len(errors) == len(lines):
        raise InputError(
            f"{contender.name}: {measure.name}: none of {counted(len(lines), 'row')} could be "
            f"asked: {errors[0]}",
            code="evaluate.nothing_asked",
        )


def _progress(contender: Contender, measure: Measure, show: Show) -> Callable[[int], None]:
    total = len(measure.items)

    def progress(count: int) -> None:
        show(f"{contender.name}  {measure.name}  row {count:,}/{total:,}")

    return progress


def form_of(session: ChatSession, measure: Measure) -> str:
    """Returns how a loaded model is asked, in words."""
    if measure.how == "loss":
        return "as in training"
    if measure.is_plain:
        return "plain text"
    if make_encoder(session.tokenizer, session.options).template is None:
        return "plain text: the model has no chat template"
    text = session.tokenizer.get_chat_template()
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    system = f"system prompt of {len(session.system)} characters" if session.system else ""
    return ", ".join(filter(None, (f"chat template {digest}", system or "no system prompt")))
