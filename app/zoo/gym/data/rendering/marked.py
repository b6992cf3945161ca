"""Renders a chat with markers around the text of every turn, to locate each turn.

Markers are private-use characters that the data does not contain. They are placed inside the outer
whitespace of a text, so that a template that strips text gives the same result with and without
them. Special tokens in the data are replaced by other such characters until the chat is rendered,
so that every special token in the render is the template's own.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoo.gym.data.records import Message
from zoo.gym.data.rendering.template import ChatTemplate, render, render_all
from zoo.gym.errors import InputError

_PRIVATE_USE = range(0xF0000, 0x10E000)
_MARKS = re.compile("[\U000f0000-\U0010dfff]")
EAGER_TURNS = 128
"""Chats up to this many turns are rendered together with every generation prompt."""

MOST_TURNS = 40_000
"""Two markers per turn must fit in the private-use characters."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A chat rendered with markers.

    Attributes:
        template: the model's template.
        messages: the turns as rendered: with markers around their texts, special tokens hidden.
        thoughts: the reasoning of each turn in the same form, whether `messages` has it or not.
        text: the rendered chat; if `plain`, with substitutes for the template's special tokens.
        opens: the position of the marker before each turn's text.
        closes: the position of the marker after it.
        prompts: renders that end with the prompt for a turn, by its index; those of long chats
            are rendered when they are needed.
        plain: the data contains special tokens as text: see `SpecialTokens.plain_reader`.
    """

    template: ChatTemplate
    messages: tuple[Message, ...]
    thoughts: tuple[str | None, ...]
    text: str
    opens: tuple[int, ...]
    closes: tuple[int, ...]
    prompts: Mapping[int, str] = field(repr=False)
    plain: bool
    _shown: Mapping[int, str | None] = field(repr=False)

    def clean(self, start: int, stop: int) -> str:
        """Returns a part of the text without markers and with hidden tokens restored."""
        return self.text[start:stop].translate(self._shown)

    def shown(self, text: str) -> str:
        """Returns our own text in the form of the chat; its special tokens are real."""
        specials = self.template.specials
        return (specials.stood_in(text) if self.plain and specials else text).translate(self._shown)

    def prompt_after(self, index: int) -> str | None:
        """Returns what a generation prompt appends to a turn, None if the turn is not in it."""
        text = self.prompts.get(index + 1)
        if text is None:
            text = render(self.template, self.messages[: index + 1], generation_prompt=True)
        mark = self.text[self.closes[index]]
        _, found, opening = text.partition(mark)
        specials = self.template.specials
        if not found:
            return None
        return specials.stood_in(opening) if self.plain and specials else opening


def render_marked(
    template: ChatTemplate,
    messages: Sequence[Message],
    bare: frozenset[int] = frozenset(),
    *,
    generation_prompt: bool = False,
) -> Marked:
    """Renders a chat with markers.

    Args:
        template: the model's template.
        messages: the turns.
        bare: indices of turns whose reasoning is not passed to the template.
        generation_prompt: end with the prompt for an assistant's next turn.

    Raises:
        InputError: the template refuses the chat, or drops or rewrites a turn.
    """
    if len(messages) > MOST_TURNS:
        raise InputError(f"expected a chat of at most {MOST_TURNS} turns, got {len(messages)}")
    free = _free_characters(messages)
    hidden: dict[str, str] = {}
    messages = [_hide(template, message, hidden, free) for message in messages]
    marks = [(next(free), next(free)) for _ in messages]
    fence = next(free)
    turns = tuple(_mark(m, *pair, fence) for m, pair in zip(messages, marks, strict=True))
    thoughts = tuple(turn.reasoning for turn in turns)
    turns, messages = _without_reasoning(turns, bare), _without_reasoning(messages, bare)
    count = len(messages)
    places = [
        place
        for place, message in enumerate(messages)
        if message.role == "assistant" and place and count <= EAGER_TURNS and not generation_prompt
    ]
    text, plain_text, *prompts = render_all(
        template,
        [turns, messages],
        [
            (0, count, generation_prompt),
            (1, count, generation_prompt),
            *((0, place, True) for place in places),
        ],
    )
    _refuse_rewritten(text, messages, marks)
    shown: dict[int, str | None] = {ord(mark): None for pair in marks for mark in (*pair, fence)}
    shown |= {ord(character): word for word, character in hidden.items()}
    without_marks = {code: None for code, word in shown.items() if word is None}
    if text.translate(without_marks) != plain_text:
        raise InputError("the chat template rewrites a turn: expected every turn unchanged")
    plain = bool(hidden) or _forms_a_token(template, text, text.translate(shown))
    if plain and template.specials:
        text = template.specials.stood_in(text)
    found = {mark[0]: mark.start() for mark in _MARKS.finditer(text)}
    opens = tuple(found[opening] for opening, _ in marks)
    closes = tuple(found[closing] for _, closing in marks)
    ready = dict(zip(places, prompts, strict=True))
    return Marked(template, turns, thoughts, text, opens, closes, ready, plain, shown)


def _free_characters(messages: Sequence[Message]) -> Iterator[str]:
    used = {found for m in messages for found in _MARKS.findall(m.content + (m.reasoning or ""))}
    yield from (chr(code) for code in _PRIVATE_USE if chr(code) not in used)
    raise InputError("expected text with fewer private-use characters: none is left for markers")


def _hide(
    template: ChatTemplate, message: Message, hidden: dict[str, str], free: Iterator[str]
) -> Message:
    """Replaces each special token in the data with a private-use character."""
    if template.specials is None:
        return message

    def stand_in(found: re.Match[str]) -> str:
        if found[0] not in hidden:
            hidden[found[0]] = next(free)
        return hidden[found[0]]

    hide = template.specials.pattern.sub
    reasoning = message.reasoning
    return replace(
        message,
        content=hide(stand_in, message.content),
        reasoning=None if reasoning is None else hide(stand_in, reasoning),
    )


def _without_reasoning(messages: Sequence[Message], bare: frozenset[int]) -> tuple[Message, ...]:
    return tuple(
        replace(message, reasoning=None) if place in bare else message
        for place, message in enumerate(messages)
    )


def _forms_a_token(template: ChatTemplate, marked: str, clean: str) -> bool:
    """Returns whether data and adjacent template text together form a special token."""
    if template.specials is None:
        return False
    find = template.specials.pattern.findall
    return len(find(marked)) != len(find(clean))


def _mark(message: Message, opening: str, closing: str, fence: str) -> Message:
    lead, body, trail = outer_space(message.content)
    marked = replace(message, content=f"{lead}{opening}{body}{closing}{trail}")
    lead, body, trail = outer_space(message.reasoning or "")
    return replace(marked, reasoning=f"{lead}{fence}{body}{fence}{trail}") if body else marked


def outer_space(content: str) -> tuple[str, str, str]:
    """Returns the whitespace before a text, the text, and the whitespace after it."""
    body = content.strip()
    at = content.index(body) if body else len(content)
    return content[:at], body, content[at + len(body) :]


def _refuse_rewritten(
    text: str, messages: Sequence[Message], marks: Sequence[tuple[str, str]]
) -> None:
    times = Counter(_MARKS.findall(text))
    for index, (message, pair) in enumerate(zip(messages, marks, strict=True)):
        found = {times[mark] for mark in pair}
        if found != {1}:
            what = "leaves out" if found == {0} else "rewrites"
            raise InputError(f"the chat template {what} turn {index + 1} ({message.role})")
