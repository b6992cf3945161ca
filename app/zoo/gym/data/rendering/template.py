"""Renders a chat with the model's own template; the date that a template prints is pinned."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from zoo.gym.data.records import Message, Tools, think_block
from zoo.gym.data.rendering.renderer import Render, renderer
from zoo.gym.data.rendering.special import SpecialTokens, special_tokens
from zoo.gym.data.tokenizer import Tokenizer, stop_ids
from zoo.gym.errors import InputError

_READS_REASONING = re.compile(r"(?:\.|\[\s*['\"]|get\(\s*['\"])(?:reasoning_content|thinking)\b")


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A model's chat template.

    Attributes:
        tool_source: that of chats with tools: the template `tool_use` if the model has one.
        reads_reasoning: whether it places reasoning itself; if not, reasoning is put before the
            answer as a think block.
        markers: ids of the tokens that a tokenizer adds to its vocabulary; one of them ends a turn.
        stops: ids of the tokens that end an answer during generation.
        specials: the special tokens, which are plain text inside contents; None allows them in
            contents.
        thinking: its variable `enable_thinking`; None leaves it undefined.
    """

    tokenizer: Tokenizer = field(repr=False)
    source: str = field(repr=False)
    tool_source: str = field(repr=False)
    today: str
    reads_reasoning: bool
    markers: frozenset[int] = field(repr=False)
    stops: frozenset[int] = field(repr=False)
    specials: SpecialTokens | None = field(repr=False)
    thinking: bool | None = None

    @property
    def prints_date(self) -> bool:
        """Whether it calls `strftime_now`, the only way by which a template knows the date."""
        return "strftime_now" in self.source + self.tool_source


def chat_template(
    tokenizer: Tokenizer,
    today: str,
    *,
    split_special_tokens: bool = True,
    thinking: bool | None = None,
) -> ChatTemplate | None:
    """Returns the template of a model, or None if it has none.

    Args:
        split_special_tokens: special tokens inside contents are plain text.

    Raises:
        InputError: `today` is not a date, or the template does not read `enable_thinking`.
    """
    if thinking is not None and "enable_thinking" not in str(tokenizer.chat_template):
        raise InputError(
            "enable_thinking: expected a model whose chat template reads it, got "
            f"{Path(tokenizer.name_or_path).name}",
            code="data.no_thinking",
        )
    if not tokenizer.chat_template:
        return None
    try:
        date.fromisoformat(today)
    except ValueError:
        raise InputError(
            f"date: expected a date like 2024-07-26, got {today!r}", code="data.bad_date"
        ) from None
    try:
        source = tokenizer.get_chat_template()
        tool_source = tokenizer.get_chat_template(tools=[])
    except ValueError as error:  # several named templates, none of them the default
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{tokenizer.name_or_path}: {reason}", code="data.no_default_template"
        ) from None
    reads = _READS_REASONING.search(source) is not None
    markers = frozenset(tokenizer.added_tokens_decoder)
    stops = frozenset(stop_ids(Path(tokenizer.name_or_path), tokenizer))
    specials = special_tokens(tokenizer) if split_special_tokens else None
    sources = (source, tool_source)
    return ChatTemplate(tokenizer, *sources, today, reads, markers, stops, specials, thinking)


@dataclass(frozen=True, slots=True)
class Chat:
    """The turns of a chat, and the definitions of the tools that its assistant may call."""

    messages: Sequence[Message]
    tools: Tools = ()


def render(
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Tools = (),
    *,
    generation_prompt: bool = False,
) -> str:
    """Returns a chat as the model reads it.

    Raises:
        InputError: see `render_all`.
    """
    renders = [(0, len(messages), generation_prompt)]
    return render_all(template, [Chat(messages, tools)], renders)[0]


def render_all(
    template: ChatTemplate, chats: Sequence[Chat], renders: Sequence[Render]
) -> list[str]:
    """Returns several renders of chats in one exchange with the rendering child.

    Args:
        renders: the index of a chat, its number of turns, and whether to add a generation prompt.

    Raises:
        InputError: the template refuses a chat, fails, or exceeds a limit; the message has its
            reason and line.
        InterruptedRunError: a stop was requested; see `interruptible`.
    """
    names = template.tokenizer.special_tokens_map
    variables: dict[str, object] = {
        name: [str(word) for word in value] if isinstance(value, list) else str(value)
        for name, value in names.items()
    }
    variables |= {"tools": None, "documents": None}
    if template.thinking is not None:
        variables["enable_thinking"] = template.thinking
    reads = template.reads_reasoning
    turns = [[_as_dict(turn, reads_reasoning=reads) for turn in chat.messages] for chat in chats]
    tools = [chat.tools for chat in chats] if any(chat.tools for chat in chats) else ()
    source = template.tool_source if tools else template.source
    return renderer.render(source, template.today, variables, turns, renders, tools)


def openai_turn(message: Message) -> dict[str, object]:
    """Returns a turn in the form of OpenAI, without reasoning; arguments of calls are objects."""
    turn: dict[str, object] = {"role": message.role, "content": message.content}
    if message.calls:
        turn["tool_calls"] = [
            ({"id": call.id} if call.id else {})
            | {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.tool:
        turn["name"] = message.tool
    if message.call_id:
        turn["tool_call_id"] = message.call_id
    return turn


def _as_dict(message: Message, *, reads_reasoning: bool) -> Mapping[str, object]:
    turn = openai_turn(message)
    if message.reasoning is None:
        return turn
    if reads_reasoning:
        return {**turn, "thinking": message.reasoning, "reasoning_content": message.reasoning}
    return {**turn, "content": think_block(message.reasoning) + message.content}
