"""Finds what an assistant says in a rendered chat, and the tokens to learn: the loss mask.

Learned is what a model writes after the generation prompt: think block, answer and end token of
each assistant turn, exactly as the template renders them in the whole chat. No render of the first
turns is taken for a prefix of the whole, for templates treat earlier turns differently.

How: the chat is rendered twice, once as it is and once with two characters of private use around
the text of every turn, inside its outer whitespace, so that a template that trims does the same to
both. Taken out again, they must leave the plain render; then their places are the turns' places.
A turn starts where the generation prompt, rendered for the turns before it, ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.gym.data.records import Message
from zoo.gym.data.template import ChatTemplate, render
from zoo.gym.data.thinking import think_block
from zoo.gym.data.tokenizer import Tokens, tokenise
from zoo.gym.errors import InputError

_PRIVATE_USE = range(0xF0000, 0x10FFFE)
_THINK_END = "</think>"


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a rendered text holds an assistant's turn, in characters.

    Attributes:
        start: its first character, think block included.
        stop: the character after its content.
        limit: where the next turn's content starts, or the text ends: its end token is before.
        learned: whether the data wants it learned.
    """

    start: int
    stop: int
    limit: int
    learned: bool


@dataclass(frozen=True, slots=True)
class Rendered:
    """A chat as the model reads it, and where its assistant speaks."""

    text: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A chat rendered with a mark before and after the text of every turn."""

    template: ChatTemplate
    messages: tuple[Message, ...]
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    text: str

    def clean(self, start: int, stop: int) -> str:
        """Returns a part of the text without marks."""
        marks = (ord(mark) for mark in (*self.opens, *self.closes))
        return self.text[start:stop].translate(dict.fromkeys(marks))


def render_turns(
    template: ChatTemplate, messages: Sequence[Message], *, keep_thinking: bool = False
) -> Rendered:
    """Renders a chat and finds its assistant's turns.

    Args:
        template: the model's template.
        messages: the turns.
        keep_thinking: write a think block in front of each turn whose reasoning the template
            leaves out.

    Raises:
        InputError: the template refuses the chat, drops or rewrites a turn, or places one so that
            it cannot be told what the assistant says.
    """
    messages = [_with_thinking_inside(template, message) for message in messages]
    marked = _render_marked(template, messages)
    text, done, turns = "", 0, list[Turn]()
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        start, stop, limit = _turn_place(marked, index, message)
        text += marked.clean(done, start)
        first = len(text)
        if keep_thinking:
            text += _missing_thinking(message, marked.text[start : _content_start(marked, index)])
        text += marked.clean(start, stop)
        end = len(text) + len(marked.clean(stop, limit))
        turns.append(Turn(first, len(text), end, message.learned))
        done = stop
    return Rendered(text + marked.clean(done, len(marked.text)), tuple(turns))


def _render_marked(template: ChatTemplate, messages: Sequence[Message]) -> _Marked:
    used = {ord(c) for m in messages for c in m.content + (m.reasoning or "")}
    free = (chr(code) for code in _PRIVATE_USE if code not in used)
    opens = tuple(next(free) for _ in messages)
    closes = tuple(next(free) for _ in messages)
    turns = tuple(map(_mark, messages, opens, closes))
    marked = _Marked(template, turns, opens, closes, render(template, turns))
    for index, message in enumerate(messages):
        times = {marked.text.count(opens[index]), marked.text.count(closes[index])}
        if times != {1}:
            what = "leaves out" if times == {0} else "rewrites"
            raise InputError(f"the chat template {what} turn {index + 1} ({message.role})")
    if marked.clean(0, len(marked.text)) != render(template, messages):
        raise InputError("the chat template rewrites a turn: what is learned cannot be told apart")
    return marked


def _with_thinking_inside(template: ChatTemplate, message: Message) -> Message:
    """Takes a think block for the answer, where it stands in front of none."""
    if message.reasoning is None or template.reads_reasoning or message.content.strip():
        return message
    return replace(
        message, content=think_block(message.reasoning) + message.content, reasoning=None
    )


def _mark(message: Message, opening: str, closing: str) -> Message:
    lead, body, trail = _outer_space(message.content)
    return replace(message, content=f"{lead}{opening}{body}{closing}{trail}")


def _outer_space(content: str) -> tuple[str, str, str]:
    """Returns the whitespace before a text, the text, and the whitespace after it."""
    body = content.strip()
    at = content.index(body) if body else len(content)
    return content[:at], body, content[at + len(body) :]


def _content_start(marked: _Marked, index: int) -> int:
    return marked.text.index(marked.opens[index])


def _turn_place(marked: _Marked, index: int, message: Message) -> tuple[int, int, int]:
    """Returns start and stop of a turn in the marked text, and where the next content starts."""
    stop = marked.text.index(marked.closes[index]) + 1
    _, _, trail = _outer_space(message.content)
    if marked.text.startswith(trail, stop):
        stop += len(trail)
    is_last = index + 1 == len(marked.messages)
    limit = len(marked.text) if is_last else _content_start(marked, index + 1)
    return _turn_start(marked, index), stop, limit


def _turn_start(marked: _Marked, index: int) -> int:
    """Returns where a turn starts: after what a generation prompt puts behind the turn before.

    A prompt that opens a think block of its own may go further than a turn without reasoning
    does; then the turn starts where the two part, if only its content follows.
    """
    if index == 0:
        raise InputError("the chat starts with an assistant turn: expected a user turn first")
    before = marked.closes[index - 1]
    prompt = render(marked.template, marked.messages[:index], generation_prompt=True)
    _, found, opening = prompt.partition(before)
    after = marked.text.index(before) + 1
    if found and marked.text.startswith(opening, after):
        return after + len(opening)
    rendered = marked.text[after : _content_start(marked, index)]
    pairs = zip(opening, rendered, strict=False)
    common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(rendered))
    if not found or rendered[common:].strip():
        raise InputError(
            f"turn {index + 1} starts with {rendered!r} in the chat, with {opening!r} in a "
            "generation prompt: what is learned cannot be told apart"
        )
    return after + common


def _missing_thinking(message: Message, rendered: str) -> str:
    """Returns the think block that the template left out, or nothing."""
    if message.reasoning is None or (message.reasoning.strip() or _THINK_END) in rendered:
        return ""
    return think_block(message.reasoning)


def learned_tokens(template: ChatTemplate, chat: Rendered) -> tuple[list[int], list[bool]]:
    """Returns the token ids of a rendered chat, and which of them are learned.

    A turn ends with the first marker (`<|im_end|>` and the like) before the next turn's content.
    Where none follows the last turn, the tokenizer's end-of-text token is put behind it, so that
    a model learns to stop.
    """
    wanted = [turn for turn in chat.turns if turn.learned]
    cuts = [turn.start for turn in wanted]
    tokens = tokenise(template.tokenizer, chat.text, cuts)
    unended = [turn for turn in wanted if _end_token(template, tokens, turn) is None]
    if unended:
        cuts = sorted({*cuts, *(turn.stop for turn in unended)})
        tokens = tokenise(template.tokenizer, chat.text, cuts)
    ids, learned = tokens.ids, [False] * len(tokens.ids)
    for turn in wanted:
        end = _end_token(template, tokens, turn)
        first = tokens.first_from(turn.start)
        stop = tokens.first_from(turn.stop) if end is None else end + 1
        learned[first:stop] = [True] * (stop - first)
        eos = template.tokenizer.eos_token_id
        if end is None and turn.limit == len(chat.text) and eos is not None:
            return [*ids[:stop], eos], [*learned[:stop], True]
    return ids, learned


def _end_token(template: ChatTemplate, tokens: Tokens, turn: Turn) -> int | None:
    """Returns the index of the first marker between a turn's content and the next one's."""
    for index in range(tokens.first_from(turn.stop), tokens.first_from(turn.limit)):
        if tokens.ids[index] in template.markers:
            return index
    return None
