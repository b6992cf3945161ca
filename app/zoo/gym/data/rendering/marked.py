"""Renders a chat with markers around the text of every turn, to locate each turn.

Markers are private-use characters that the data does not contain (`marks.py`). Special tokens in
the data are replaced by other such characters until the chat is rendered, so that every special
token in the render is the template's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoo.gym.data.records import Message, Tools
from zoo.gym.data.rendering.marks import (
    MARKS,
    free_characters,
    hidden_tools,
    hidden_turn,
    hider,
    mark_tools,
    mark_turn,
    refuse_lost,
)
from zoo.gym.data.rendering.template import Chat, ChatTemplate, render, render_all
from zoo.gym.errors import InputError

EAGER_TURNS = 128
"""Chats up to this many turns are rendered together with every generation prompt."""

MOST_TURNS = 40_000
"""Two markers per turn must fit in the private-use characters."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A chat rendered with markers.

    Attributes:
        template: the model's template.
        chat: the turns and tools as rendered: with markers, special tokens hidden.
        thoughts: the reasoning of each turn in the same form, whether `chat` has it or not.
        text: the rendered chat; if `plain`, with substitutes for the template's special tokens.
        opens: the position of the first marker of each turn: before its text, or of a call without
            text before its name.
        closes: the position of its last marker: after its text, or in its last call.
        prompts: renders that end with the prompt for a turn, by its index; those of long chats
            are rendered when they are needed.
        plain: the data contains special tokens as text: see `SpecialTokens.plain_reader`.
    """

    template: ChatTemplate
    chat: Chat
    thoughts: tuple[str | None, ...]
    text: str
    opens: tuple[int, ...]
    closes: tuple[int, ...]
    prompts: Mapping[int, str] = field(repr=False)
    plain: bool
    _replaced: Mapping[int, str | None] = field(repr=False)

    def clean(self, start: int, stop: int) -> str:
        """Returns a part of the text without markers and with hidden tokens restored."""
        return self.text[start:stop].translate(self._replaced)

    def in_form(self, text: str) -> str:
        """Returns our own text in the form of the chat; its special tokens are real."""
        return self._stood_in(text).translate(self._replaced)

    def _stood_in(self, text: str) -> str:
        specials = self.template.specials
        return specials.stood_in(text) if self.plain and specials else text

    @property
    def messages(self) -> Sequence[Message]:
        """The turns."""
        return self.chat.messages

    def prompt_after(self, index: int) -> str | None:
        """Returns what a generation prompt appends to a turn, None if the turn is not in it."""
        text = self.prompts.get(index + 1)
        if text is None:
            turns, tools = self.messages[: index + 1], self.chat.tools
            text = render(self.template, turns, tools, generation_prompt=True)
        _, mark, opening = text.rpartition(self.text[self.closes[index]])
        return self._stood_in(opening) if mark else None


def render_marked(
    template: ChatTemplate,
    messages: Sequence[Message],
    bare: frozenset[int] = frozenset(),
    tools: Tools = (),
    *,
    generation_prompt: bool = False,
) -> Marked:
    """Renders a chat with markers.

    Args:
        bare: indices of turns that are rendered without their reasoning.

    Raises:
        InputError: the template refuses the chat, or drops or rewrites a turn, a call or a tool.
    """
    if len(messages) > MOST_TURNS:
        raise InputError(
            f"expected a chat of at most {MOST_TURNS} turns, got {len(messages)}",
            code="data.long_chat",
        )
    free = free_characters(messages, tools)
    hidden: dict[str, str] = {}
    hide = hider(template.specials, hidden, free)
    plain = Chat([hidden_turn(message, hide) for message in messages], hidden_tools(tools, hide))
    fence = next(free)
    pairs = [mark_turn(turn, free, fence) for turn in plain.messages]
    turns, marks = [turn for turn, _ in pairs], [of_turn for _, of_turn in pairs]
    marked_tools, of_tools = mark_tools(plain.tools, free)
    marked = Chat(_without_reasoning(turns, bare), marked_tools)
    plain = Chat(_without_reasoning(plain.messages, bare), plain.tools)
    text, plain_text, prompts = _render_both(template, marked, plain, generation_prompt)
    refuse_lost(text, plain.messages, marks, of_tools)
    every = {fence, *of_tools}
    for of_turn in marks:
        every.update(*of_turn.pairs, of_turn.arguments)
    replaced: dict[int, str | None] = {ord(mark): None for mark in every}
    if text.translate(replaced) != plain_text:
        raise InputError(
            "the chat template rewrites a turn: expected every turn unchanged",
            code="data.rewritten_turn",
        )
    replaced |= {ord(character): word for word, character in hidden.items()}
    is_plain = bool(hidden)
    if template.specials is not None:
        # data and adjacent template text may together form a special token
        find = template.specials.pattern.findall
        is_plain = is_plain or len(find(text)) != len(find(text.translate(replaced)))
        text = template.specials.stood_in(text) if is_plain else text
    positions = [(match[0], match.start()) for match in MARKS.finditer(text)]
    first, last = dict(reversed(positions)), dict(positions)
    spans = [of_turn.span(first, last) for of_turn in marks]
    opens, closes = (tuple(span[side] for span in spans) for side in (0, 1))
    thoughts = tuple(turn.reasoning for turn in turns)
    return Marked(template, marked, thoughts, text, opens, closes, prompts, is_plain, replaced)


def _render_both(
    template: ChatTemplate, marked: Chat, plain: Chat, generation_prompt: bool
) -> tuple[str, str, dict[int, str]]:
    """Returns a chat with markers, without them, and the prompts for its turns with markers."""
    count = len(plain.messages)
    is_eager = count <= EAGER_TURNS and not generation_prompt
    answers = [
        index
        for index, message in enumerate(plain.messages)
        if is_eager and index and message.role == "assistant"
    ]
    renders = [(0, count, generation_prompt), (1, count, generation_prompt)]
    renders += [(0, index, True) for index in answers]
    text, plain_text, *prompts = render_all(template, [marked, plain], renders)
    return text, plain_text, dict(zip(answers, prompts, strict=True))


def _without_reasoning(messages: Sequence[Message], bare: frozenset[int]) -> tuple[Message, ...]:
    return tuple(
        replace(message, reasoning=None) if index in bare else message
        for index, message in enumerate(messages)
    )
