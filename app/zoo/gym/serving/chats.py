"""Requests of a chat: its turns, the tools that it may call, whether it is to think."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, Field, model_validator

from zoo.gym.config.report import shown
from zoo.gym.data import Message, split_thinking
from zoo.gym.data.reading.turns.tools import parse_calls, parse_tools
from zoo.gym.data.records import Tools
from zoo.gym.errors import InputError
from zoo.gym.serving.forms import STRICT, Finite, Json, Whole
from zoo.gym.serving.wire import Body, RequestError

MOST_TOOLS = 128

Roles: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


class Turn(BaseModel):
    """A message of a conversation."""

    model_config = STRICT

    role: Roles
    content: str | list[Json] | None = None
    # what OpenAI's client repeats of its own answers
    annotations: None = None
    audio: None = None
    function_call: None = None
    name: None = None
    refusal: None = None
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None

    @property
    def message(self) -> Message:
        """The turn as a template gets it; reasoning of an answer is apart from it.

        Raises:
            RequestError: a field is of another role, or a call cannot be read.
        """
        of_role = {"assistant": ("reasoning_content", "tool_calls"), "tool": ("tool_call_id",)}
        for field in ("reasoning_content", "tool_calls", "tool_call_id"):
            if getattr(self, field) is not None and field not in of_role.get(self.role, ()):
                raise RequestError(
                    f"messages: {field} in a turn of the {self.role}", param="messages"
                )
        if self.content is None and self.role != "assistant":
            raise RequestError(
                f"messages: a turn of the {self.role} without content", param="messages"
            )
        if self.role == "tool":
            return Message("tool", self.text, call_id=self.tool_call_id or "")
        if self.role != "assistant":
            return Message("system" if self.role == "developer" else self.role, self.text)
        reasoning, content = self.reasoning_content, self.text
        if reasoning is None:
            reasoning, content = split_thinking(content)
        try:
            calls = parse_calls({"tool_calls": self.tool_calls}, "messages")
        except InputError as error:
            raise RequestError(error.message, param="messages") from None
        return Message("assistant", content, reasoning, calls=calls)

    @property
    def text(self) -> str:
        """Its text, of all parts.

        Raises:
            RequestError: a part is no text.
        """
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        for part in self.content:
            kind = part.get("type")
            if isinstance(kind, str) and "image" in kind:
                raise RequestError(
                    "messages: images are not supported: expected text", param="messages"
                )
            if kind != "text" or "text" not in part:
                raise RequestError(
                    f"messages: expected parts of type text, got {kind!r:.40}", param="messages"
                )
            if wrong := [key for key, value in part.items() if not isinstance(value, str)]:
                raise RequestError(
                    f"messages: {wrong[0]}: expected text in a part of type text, got "
                    f"{shown(part[wrong[0]])}",
                    param="messages",
                )
        return "".join(part["text"] for part in self.content)


class Thinking(BaseModel):
    """What a chat template is given besides."""

    model_config = STRICT

    enable_thinking: bool | None = None


class ChatBody(Body):
    """A request of /v1/chat/completions."""

    prompt_field: ClassVar[str] = "messages"

    messages: list[Turn] = Field(min_length=1, max_length=10_000)
    logprobs: bool | None = False
    top_logprobs: Whole | None = Field(default=None, ge=0, le=20)
    max_completion_tokens: Whole | None = Field(default=None, ge=1)
    tools: Finite[list[Json]] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none"] | None = None
    chat_template_kwargs: Thinking | None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise RequestError(
                "top_logprobs: expected logprobs: true with it", param="top_logprobs"
            )
        if self.tools and self.form is not None:
            raise RequestError(
                "tools: expected them without a form of answers, which no call has", param="tools"
            )
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise RequestError(
                "max_tokens: expected it or max_completion_tokens, got both", param="max_tokens"
            )
        return self

    @property
    def most_tokens(self) -> int | None:
        """The most tokens of an answer, if the request says so."""
        return self.max_tokens or self.max_completion_tokens

    @property
    def limit_field(self) -> str:
        """The field that says it."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def most_likely(self) -> int:
        """How many of the most likely tokens are reported with each token."""
        return self.top_logprobs or 0

    @property
    def offered(self) -> Tools:
        """The definitions of the tools that may be called.

        Raises:
            RequestError: one is no definition, or is strict and not forced.
        """
        if self.tool_choice == "none":
            return ()
        try:
            tools = parse_tools({"tools": self.tools})
        except InputError as error:
            raise RequestError(error.message, param="tools") from None
        if self.tool_choice in (None, "auto") and any(_of(tool).get("strict") for tool in tools):
            raise RequestError(
                "tools: strict: expected a tool_choice that forces a call with it", param="tools"
            )
        return tools

    @property
    def forced(self) -> Tools:
        """The definitions of the tools of which one has to be called; empty for none.

        Raises:
            RequestError: there is no such tool.
        """
        choice = self.tool_choice
        if choice in (None, "none", "auto"):
            return ()
        tools = self.offered
        if choice != "required":
            function = choice.get("function") if isinstance(choice, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            tools = [tool for tool in tools if _of(tool)["name"] == name]
        if not tools:
            raise RequestError(
                "tool_choice: expected 'auto', 'none', 'required' or a function of the tools, got "
                f"{choice!r:.100}",
                param="tool_choice",
            )
        return tools

    @property
    def most_calls(self) -> int | None:
        """The most calls of an answer."""
        return 1 if self.parallel_tool_calls is False else None

    @property
    def thinking(self) -> bool | None:
        """Whether the model is to think before it answers; None leaves it to its template.

        Raises:
            RequestError: two fields differ.
        """
        given = self.chat_template_kwargs
        stated = None if given is None else given.enable_thinking
        if self.reasoning_effort is not None and stated:
            raise RequestError(
                "reasoning_effort: got 'none' and enable_thinking", param="reasoning_effort"
            )
        return stated if self.reasoning_effort is None else False

    def turns(self, system: str, lessons: Callable[[str], str]) -> list[Message]:
        """Returns the conversation.

        Args:
            system: the system prompt, if the request has none.
            lessons: returns what stands behind the system prompt, for the words of the user.

        Raises:
            RequestError: a turn cannot be read, or the last one is not to be answered.
        """
        turns = named_results([turn.message for turn in self.messages])
        if turns[-1].role not in ("user", "tool"):
            raise RequestError(
                f"messages: expected a turn of the user or of a tool last, got {turns[-1].role}",
                param="messages",
            )
        if turns[0].role == "system":
            system = turns.pop(0).content
        words = "\n".join(turn.content for turn in turns if turn.role == "user")
        texts = [text for text in (system, lessons(words)) if text.strip()]
        return [Message("system", "\n\n".join(texts)), *turns] if texts else turns


def _of(tool: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", tool["function"])


def named_results(turns: list[Message]) -> list[Message]:
    """Returns a conversation with the names of the tools that its results are from.

    Raises:
        RequestError: a result answers no call before it.
    """
    names: dict[str, str] = {}
    named: list[Message] = []
    for turn in turns:
        names |= {call.id: call.name for call in turn.calls}
        if turn.role == "tool" and turn.call_id not in names:
            raise RequestError(
                f"messages: tool_call_id: expected that of a call before it, got "
                f"{turn.call_id!r:.100}",
                param="messages",
            )
        named.append(replace(turn, tool=names[turn.call_id]) if turn.role == "tool" else turn)
    return named
