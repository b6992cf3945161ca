"""Finds the assistant's turns in a rendered chat, and the tokens to learn: the loss mask.

Learned is what a model writes after the generation prompt: think block, answer and end of each
assistant turn, exactly as the template renders them in the whole chat. The render of the first
turns is not assumed to be a prefix of the whole, because templates treat earlier turns differently.

Method: the chat is rendered twice, once plainly and once with markers around the text of every turn
(`marked.py`). Removing the markers must give the plain render; then their positions are those of
the turns. A turn starts where the generation prompt, rendered for the turns before it, ends.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from zoo.gym.data.records import Message, Tools, think_block
from zoo.gym.data.rendering.marked import EAGER_TURNS, Marked, outer_space, render_marked
from zoo.gym.data.rendering.renderer import RenderLimitError
from zoo.gym.data.rendering.template import ChatTemplate
from zoo.gym.data.tokenizer import Tokens, tokenise
from zoo.gym.errors import InputError

_THINK, _THINK_END = "<think>", "</think>"
_OPENED = re.compile(r"<think>\s*(</think>\s*)?$")
PROBE = (Message("user", "a"), Message("assistant", "b"))
"""A chat that shows how a template ends an answer."""


class Turn(NamedTuple):
    """The position of an assistant's turn in a rendered text, in characters.

    Attributes:
        start: its first character, including a think block.
        stop: the character after its content.
        limit: where the next turn's content starts, or the text ends; its end token is before.
        learned: whether it is to be learned according to the data.
        calls: whether it has tool calls; then `stop` is in the last of them, and the turn is
            learned up to the end token after them.
    """

    start: int
    stop: int
    limit: int
    learned: bool
    calls: bool = False


class Rendered(NamedTuple):
    """A chat as the model reads it, with the positions of the assistant's turns.

    Attributes:
        text: the chat; if `plain`, with substitutes for the template's special tokens.
        plain: the data contains special tokens as text: see `SpecialTokens`.
    """

    text: str
    turns: tuple[Turn, ...]
    plain: bool = False


def render_turns(
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Tools = (),
    *,
    keep_thinking: bool = False,
) -> Rendered:
    """Renders a chat and finds its assistant's turns.

    Args:
        keep_thinking: write a think block before each turn if the template omits its reasoning.

    Raises:
        InputError: the template refuses the chat, drops or rewrites a turn, a call or a tool, or
            places a turn so that the assistant's text cannot be identified.
    """
    messages = [_with_thinking_inside(template, message) for message in messages]
    marked = render_marked(template, messages, tools=tools)
    if bare := dropped_blocks(marked):
        marked = render_marked(template, messages, bare, tools)
    openings = set[str]()
    text, done, turns = "", 0, list[Turn]()
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        start, stop, limit = _turn_span(marked, index, openings)
        thought = _missing_thinking(marked, index, start) if keep_thinking else ""
        text += marked.clean(done, start)
        answer = thought + marked.clean(start, stop)
        first, end = len(text), len(text) + len(answer)
        limit = end + len(marked.clean(stop, limit))
        turns.append(Turn(first, end, limit, message.learned, bool(message.calls)))
        text += answer
        done = stop
    text += marked.clean(done, len(marked.text))
    return Rendered(text, tuple(turns), marked.plain)


def _with_thinking_inside(template: ChatTemplate, message: Message) -> Message:
    """Treats a think block as the answer if no answer follows it."""
    if message.reasoning is None or template.reads_reasoning or message.content.strip():
        return message
    content = think_block(message.reasoning) + message.content
    return replace(message, content=content, reasoning=None)


def dropped_blocks(marked: Marked) -> frozenset[int]:
    """Returns the indices of turns that lost the think block before their answer.

    Such a template leaves the blank lines after the block.
    """
    if marked.template.reads_reasoning:
        return frozenset()
    return frozenset(
        index
        for index, thought in enumerate(marked.thoughts)
        if thought is not None
        and (thought.strip() or _THINK)
        not in marked.text[marked.closes[index - 1] if index else 0 : marked.opens[index]]
    )


def _turn_span(marked: Marked, index: int, openings: set[str]) -> tuple[int, int, int]:
    """Returns start and stop of a turn in the marked text, and the start of the next content."""
    stop, turn = marked.closes[index] + 1, marked.chat.messages[index]
    _, _, trail = outer_space(turn.content)
    if not turn.calls and marked.text.startswith(trail, stop):
        stop += len(trail)
    is_last = index + 1 == len(marked.chat.messages)
    limit = len(marked.text) if is_last else marked.opens[index + 1]
    return _turn_start(marked, index, openings), stop, limit


def _turn_start(marked: Marked, index: int, openings: set[str]) -> int:
    """Returns where a turn starts: after the generation prompt that follows the previous turn.

    A prompt that opens a think block may differ from the start of a turn without reasoning; then
    the turn starts where the two diverge, if only its reasoning and its content follow; a turn of
    calls starts before the block that the prompt opens. In a chat of very many turns, a prompt
    rendered for an earlier turn is reused if the chat continues with exactly its text.

    Args:
        openings: the generation prompts of earlier turns; this one is added.
    """
    if index == 0:
        raise InputError(
            "the chat starts with an assistant turn: expected a user turn first",
            code="data.first_turn",
        )
    start = marked.closes[index - 1] + 1
    if len(marked.chat.messages) > EAGER_TURNS and index + 1 < len(marked.chat.messages):
        lengths = [len(text) for text in openings if marked.text.startswith(text, start)]
        if lengths:
            return start + max(lengths)
    opening = marked.prompt_after(index - 1)
    if opening is not None and marked.text.startswith(opening, start):
        openings.add(opening)
        return start + len(opening)
    rendered = marked.text[start : marked.opens[index]]
    pairs = zip(opening or "", rendered, strict=False)
    common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(rendered))
    if opening is None or not _is_thinking(rendered[common:], marked.thoughts[index]):
        unopened = _OPENED.sub("", opening or "")
        if (
            marked.chat.messages[index].calls
            and unopened != opening
            and rendered.startswith(unopened)
        ):
            return start + len(unopened)
        raise InputError(
            f"turn {index + 1} starts with {rendered!r} in the chat, with {opening or ''!r} in a "
            "generation prompt: expected the same, to find what is learned",
            code="data.ambiguous_turn",
        )
    return start + common


def _is_thinking(text: str, thought: str | None) -> bool:
    """Returns whether a text is only a think block, or the end of one."""
    rest = text.replace(thought.strip(), "", 1) if thought and thought.strip() else text
    return not rest.replace(_THINK, "").replace(_THINK_END, "").strip()


def _missing_thinking(marked: Marked, index: int, start: int) -> str:
    """Returns the think block that the template omitted, or an empty string."""
    thought = marked.thoughts[index]
    rendered = marked.text[start : marked.opens[index]]
    if thought is None or (thought.strip() or _THINK_END) in rendered:
        return ""
    return marked.in_form(think_block(thought))


def learned_tokens(template: ChatTemplate, chat: Rendered) -> tuple[list[int], list[bool]]:
    """Returns the token ids of a rendered chat, and which of them are learned.

    A turn ends with the token that stops generation if only markers (such as `<|im_end|>`) precede
    it, otherwise with the first marker before the next turn's content. If no marker follows the
    last turn, the tokenizer's end-of-text token is appended, so that a model learns to stop. A turn
    with tool calls ends with the first token after them that stops generation; if none follows the
    last turn, it ends with the text, and the end-of-text token.

    Raises:
        InputError: the tokenizer makes a special token of text in the data, or no token that stops
            generation is between tool calls and the next turn's content.
    """
    turns = [turn for turn in chat.turns if turn.learned]
    cuts = [turn.start for turn in turns]
    tokens = tokenise_chat(template, chat, cuts)
    unended = [turn for turn in turns if _end_token(template, tokens, chat, turn) is None]
    if unended:
        cuts = sorted({*cuts, *(_unended_stop(chat, turn) for turn in unended)})
        tokens = tokenise_chat(template, chat, cuts)
    ids, learned = tokens.ids, [False] * len(tokens.ids)
    for turn in turns:
        end = _end_token(template, tokens, chat, turn)
        first = tokens.first_from(turn.start)
        stop = tokens.first_from(_unended_stop(chat, turn)) if end is None else end + 1
        learned[first:stop] = [True] * (stop - first)
        eos = template.tokenizer.eos_token_id
        if end is None and turn.limit == len(chat.text) and eos is not None:
            return [*ids[:stop], eos], [*learned[:stop], True]
    return ids, learned


def tokenise_chat(template: ChatTemplate, chat: Rendered, cuts: Sequence[int] = ()) -> Tokens:
    """Returns the tokens of a rendered chat; none crosses one of the cuts.

    Raises:
        InputError: the tokenizer makes a special token of text in the data.
    """
    if template.specials is None:
        return tokenise(template.tokenizer, chat.text, cuts)
    return template.specials.tokenise(chat.text, cuts, plain=chat.plain)


def _unended_stop(chat: Rendered, turn: Turn) -> int:
    """Returns the character after a turn without an end token; calls are up to the text's end."""
    return max(turn.stop, len(chat.text.rstrip())) if turn.calls else turn.stop


def _end_token(template: ChatTemplate, tokens: Tokens, chat: Rendered, turn: Turn) -> int | None:
    """Returns the index of the last token of a turn, before the next turn's content."""
    if turn.calls:
        return _end_of_calls(template, tokens, turn, is_last=turn.limit == len(chat.text))
    first = None
    for index in range(tokens.first_from(turn.stop), tokens.first_from(turn.limit)):
        if tokens.ids[index] in template.markers:
            first = index if first is None else first
            if tokens.ids[index] in template.stops:
                return index
        elif first is not None:
            break
    return first


def _end_of_calls(
    template: ChatTemplate, tokens: Tokens, turn: Turn, *, is_last: bool
) -> int | None:
    """Returns the index of the token that stops generation after the calls of a turn.

    It may be the first token of the next turn, as in GLM's template; the last turn may lack it.
    """
    stops = template.stops | end_markers(template)
    for index in range(tokens.first_from(turn.stop), tokens.first_from(turn.limit)):
        if tokens.ids[index] in stops:
            return index
    if is_last:
        return None
    names = " or ".join(template.tokenizer.decode([token]) for token in sorted(stops))
    raise InputError(
        f"the chat template does not end a turn with tool calls: expected {names or 'a marker'} "
        "before the next turn",
        code="data.unended_calls",
    )


@lru_cache(maxsize=8)
def end_markers(template: ChatTemplate) -> frozenset[int]:
    """Returns the marker that ends a learned answer; empty if it does not end with one.

    Raises:
        RenderLimitError: the template exceeded its time or memory limit.
    """
    try:
        ids, learned = learned_tokens(template, render_turns(template, PROBE))
    except RenderLimitError:  # not this template's answer: nothing is cached
        raise
    except InputError:  # a template that refuses such a short chat; training reports it
        return frozenset()
    last = max(index for index, is_learned in enumerate(learned) if is_learned)
    return frozenset({ids[last]}) & template.markers
