"""A chat template in Go's language, which Ollama renders, from one in Jinja.

Most chat templates put fixed texts between the contents of turns, by the roles of a turn and of the
one before. These texts are found by rendering chats with marked contents; then conversations are
rendered from the texts and compared with Jinja. A template that does more than that is refused.

Texts stand in it as they are, because Ollama looks in them for the marks of reasoning.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from zoo.gym.data import Message
from zoo.gym.data.rendering.template import ChatTemplate, chat_template, render
from zoo.gym.errors import InputError
from zoo.gym.export.conversations import CONVERSATIONS
from zoo.gym.export.job import DATE, Job

THOUGHT = "⟦t⟧"
MERGED = "\n\n"
"""What stands between a system prompt and the user's words in one turn."""

OTHER_DATE = "2031-03-09"

ROLES = ("system", "user", "assistant")

Pair = tuple[str, str]
"""The role of the turn before, empty for none, and that of a turn."""

_CHATS: dict[Pair, tuple[str, ...]] = {
    ("", "user"): ("user",),
    ("", "system"): ("system", "user"),
    ("", "assistant"): ("assistant", "user"),
    ("system", "user"): ("system", "user"),
    ("system", "system"): ("system", "system", "user"),
    ("system", "assistant"): ("system", "assistant", "user"),
    ("user", "assistant"): ("user", "assistant", "user"),
    ("user", "user"): ("user", "user"),
    ("user", "system"): ("user", "system", "user"),
    ("assistant", "user"): ("user", "assistant", "user"),
    ("assistant", "system"): ("user", "assistant", "system", "user"),
    ("assistant", "assistant"): ("user", "assistant", "assistant", "user"),
}
"""The shortest chat in which a turn follows another."""

_FURTHER: tuple[tuple[Message, ...], ...] = (
    (Message("assistant", "Hello, how can I help?"), Message("user", "With sums.")),
    (Message("user", "One."), Message("user", "Two.")),
    (Message("user", "One."), Message("system", "Be brief."), Message("user", "Two.")),
    (Message("system", "Be brief."), Message("system", "Be kind."), Message("user", "Hello.")),
    tuple(Message(("user", "assistant")[index % 2], f"turn {index}") for index in range(9)),
    (Message("user", "A long text. " * 200),),
)
"""Chats that a program may send, beside the conversations: Ollama drops turns that do not fit."""

Render = Callable[[Sequence[Message]], str]


@dataclass(frozen=True)
class Pieces:
    """The texts between the contents of turns.

    Attributes:
        between: the text before a turn's content by pair; without those that a template refuses.
        ask: behind the last turn of the user, before the answer.
        ask_without_thought: the same for an answer without reasoning, if the template has that.
        open_thought: before the reasoning of an earlier answer; None if it is left out.
        close_thought: behind it.
    """

    between: Mapping[Pair, str]
    ask: str
    ask_without_thought: str | None = None
    open_thought: str | None = None
    close_thought: str = ""

    @property
    def takes_system(self) -> bool:
        """Whether a chat may begin with a system prompt."""
        return ("", "system") in self.between

    def text_before(self, before: str, role: str) -> str:
        """Returns the text before a turn; of what the template refuses, the nearest that it has."""
        nearest = {
            "system": (("", "user") if not before else ("assistant", "user"), ("", "user")),
            "user": (("assistant", "user"), ("", "user")),
            "assistant": (("user", "assistant"),),
        }[role]
        if (before, role) == ("system", "user") and not self.takes_system:
            return MERGED  # the system prompt began the user's turn
        return next(
            self.between[pair] for pair in ((before, role), *nearest) if pair in self.between
        )

    def render(self, messages: Sequence[Message]) -> str:
        """Returns a chat up to where the next answer begins."""
        text, before = "", ""
        for message in messages:
            text += self.text_before(before, message.role)
            if message.role == "assistant" and message.reasoning and self.open_thought is not None:
                text += f"{self.open_thought}{message.reasoning}{self.close_thought}"
            text, before = text + message.content, message.role
        return text + self.ask

    def in_go(self) -> str:
        """Returns the template."""
        thought = ""
        if self.open_thought is not None:
            inner = f"{_text(self.open_thought)}{{{{ .Thinking }}}}{_text(self.close_thought)}"
            thought = f"{{{{ if .Thinking }}}}{inner}{{{{ end }}}}"
        roles = {role: self._after(role) for role in ROLES}
        turns = (
            f'{{{{ if eq .Role "system" }}}}{roles["system"]}'
            f'{{{{ else if eq .Role "assistant" }}}}{roles["assistant"]}{thought}'
            f"{{{{ else }}}}{roles['user']}{{{{ end }}}}{{{{ .Content }}}}{{{{ $before = .Role }}}}"
        )
        ask = _text(self.ask)
        if self.ask_without_thought is not None:
            without = _text(self.ask_without_thought)
            is_quiet = "{{ if and $.IsThinkSet (not $.Think) }}"
            ask = f"{is_quiet}{without}{{{{ else }}}}{ask}{{{{ end }}}}"
        return (
            f'{{{{ $before := "" }}}}{{{{ range .Messages }}}}{turns}{{{{ end }}}}'
            f'{{{{ if ne $before "assistant" }}}}{ask}{{{{ end }}}}'
        )

    def _after(self, role: str) -> str:
        """Returns what stands before a turn of a role, chosen by the one before."""
        texts = {before: _text(self.text_before(before, role)) for before in ("", *ROLES)}
        if len(set(texts.values())) == 1:
            return texts[""]
        words = "if"
        chosen = ""
        for before in ROLES:
            chosen += f'{{{{ {words} eq $before "{before}" }}}}{texts[before]}'
            words = "else if"
        return f"{chosen}{{{{ else }}}}{texts['']}{{{{ end }}}}"


def pieces_of(job: Job) -> tuple[Pieces, int]:
    """Returns the texts of a model's chat template, and how many conversations they render alike.

    Raises:
        InputError: the model has none, or it is no chain of texts and contents.
    """
    template = chat_template(job.tokenizer, DATE)
    if template is None:
        raise InputError(
            "chat template: expected one, got none: Ollama would have to guess how turns begin",
            hint="--template chatml gives it one, --format gguf needs none",
            code="export.no_template",
        )
    pieces = _pieces(_renderer(template))
    if "enable_thinking" in template.source:
        quiet = _pieces(_renderer(replace(template, thinking=False)))
        pieces = replace(pieces, ask_without_thought=quiet.ask)
    same = _compared(pieces, template)
    bos = cast("Any", job.tokenizer).bos_token
    if bos:  # Ollama adds it where the file says so, which it does if chats begin with it
        cut = {
            pair: text.removeprefix(str(bos)) if not pair[0] else text
            for pair, text in pieces.between.items()
        }
        pieces = replace(pieces, between=cut)
    return pieces, same


def prints_date(job: Job) -> bool:
    """Returns whether the template prints the date, which stays the same in Ollama."""
    chat = [Message("user", "Hello.")]
    dates = (chat_template(job.tokenizer, date) for date in (DATE, OTHER_DATE))
    texts = {render(each, chat, generation_prompt=True) for each in dates if each is not None}
    return len(texts) > 1


def _renderer(template: ChatTemplate) -> Render:
    return lambda messages: render(template, messages, generation_prompt=True)


def _pieces(rendered: Render) -> Pieces:
    between: dict[Pair, str] = {}
    ask = ""
    for (before, role), roles in _CHATS.items():
        marks = [f"⟦{index}⟧" for index in range(len(roles))]
        chat = [Message(each, mark) for each, mark in zip(roles, marks, strict=True)]
        try:
            texts = _cut(rendered(chat), *marks)
        except InputError:
            if (before, role) in {("", "user"), ("user", "assistant")}:
                raise
            continue  # a template that refuses such a chat
        turns = list(zip(("", *roles), roles, strict=False))
        between[before, role] = texts[turns.index((before, role))]
        ask = texts[-1] if (before, role) == ("", "user") else ask
    if ("", "system") not in between:  # nor is there one later, whatever is rendered
        between = {pair: text for pair, text in between.items() if "system" not in pair}
    opened, closed = _thought(rendered, between)
    return Pieces(between, ask, None, opened, closed)


def _thought(rendered: Render, between: Mapping[Pair, str]) -> tuple[str | None, str]:
    """Returns the texts around the reasoning of an earlier answer, or None."""
    answer = Message("assistant", "⟦1⟧", THOUGHT)
    text = rendered([Message("user", "⟦0⟧"), answer, Message("user", "⟦2⟧")])
    if THOUGHT not in text:
        return None, ""
    _, opened, closed, _, _ = _cut(text, "⟦0⟧", THOUGHT, "⟦1⟧", "⟦2⟧")
    return opened.removeprefix(between["user", "assistant"]), closed


def _cut(text: str, *marks: str) -> list[str]:
    """Returns the texts before, between and after the marks.

    Raises:
        InputError: a mark is missing, or there more than once.
    """
    texts: list[str] = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found or mark in text:
            raise _unlike()
        texts.append(before)
    return [*texts, text]


def _compared(pieces: Pieces, template: ChatTemplate) -> int:
    """Returns how many conversations Jinja and the texts render alike.

    Blanks around contents are left out: some templates cut them off, which Go's cannot.

    Raises:
        InputError: one is rendered otherwise.
    """
    same = 0
    for messages in (*CONVERSATIONS, *_FURTHER):
        if not pieces.takes_system and any(each.role == "system" for each in messages):
            continue
        chat = [replace(each, content=each.content.strip()) for each in messages]
        try:
            expected = render(template, chat, generation_prompt=True)
        except InputError:  # a template that takes no system prompt
            continue
        if pieces.render(chat) != expected:
            raise _unlike()
        same += messages in CONVERSATIONS
    return same


def _unlike() -> InputError:
    return InputError(
        "chat template: expected texts between the turns alone, got one that Ollama's language "
        "cannot say",
        hint="--format gguf keeps the template for llama.cpp and LM Studio",
        code="export.template_not_in_go",
    )


def _text(text: str) -> str:
    """Returns a text as Go prints it: as it is, or quoted if it looks like an action."""
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if "{" in text else text
