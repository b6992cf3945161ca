"""OpenAI's Responses: a request becomes that of a chat, an answer a list of items.

Nothing is kept: `previous_response_id` is refused, as agents that send the whole input do without.
"""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from zoo.gym.serving.answers import Answer
from zoo.gym.serving.chats import ChatBody
from zoo.gym.serving.faults import first_fault
from zoo.gym.serving.forms import STRICT, Finite, Json, Whole
from zoo.gym.serving.replies import Piece, ToolCall
from zoo.gym.serving.wire import RequestError

PASSED = ("model", "temperature", "top_p", "parallel_tool_calls")
"""Fields that a chat has, too."""

NOT_SUPPORTED: Mapping[str, tuple[object, ...]] = {
    "background": (None, False),
    "conversation": (None,),
    "include": (None, [], ["reasoning.encrypted_content"]),
    "max_tool_calls": (None,),
    "previous_response_id": (None,),
    "prompt": (None,),
    "top_logprobs": (None, 0),
    "truncation": (None, "disabled"),
}
"""Fields that would change an answer, with the values that change nothing."""

NAMES = {
    "messages": "input",
    "response_format": "text",
    "max_completion_tokens": "max_output_tokens",
}
"""Fields that are called otherwise in a chat, by their names there."""

TEXTS = ("input_text", "output_text", "text", "reasoning_text")


def renamed(error: RequestError) -> RequestError:
    """Returns an error of a chat with the name that its field has here."""
    name = NAMES.get(error.param or "")
    if name is None:
        return error
    return RequestError(name + error.message.removeprefix(str(error.param)), param=name)


class Reasoning(BaseModel):
    """How much a model is to think; there is only yes and no."""

    model_config = STRICT

    effort: Literal["none"] | None = None
    summary: None = None


class TextFormat(BaseModel):
    """What the text has to be."""

    model_config = STRICT

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    contents: Finite[Json] | None = Field(default=None, alias="schema")
    description: str | None = None
    strict: bool | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> Self:
        stated = self.model_dump(exclude={"type"}, exclude_none=True).keys()
        if not {"name", "contents"} <= stated if self.type == "json_schema" else stated:
            raise PydanticCustomError(
                "form", "expected a schema and its name with the type json_schema, and only there"
            )
        return self

    def chat(self) -> Json:
        """Returns the same as a chat has it."""
        if self.type != "json_schema":
            return {"type": self.type}
        schema = {"name": self.name, "schema": self.contents, "description": self.description}
        return {"type": self.type, "json_schema": schema}


class Text(BaseModel):
    """How the text is to be."""

    model_config = STRICT

    format: TextFormat | None = None
    verbosity: None = None


class ObfuscationOptions(BaseModel):
    """What a stream has besides the answer."""

    model_config = STRICT

    include_obfuscation: bool | None = None


class ResponsesBody(BaseModel):
    """A request of /v1/responses."""

    model_config = STRICT

    model: str
    input: str | list[Json] = Field(min_length=1)
    instructions: str | None = None
    max_output_tokens: Whole | None = Field(default=None, ge=1)
    reasoning: Reasoning | None = None
    tools: Finite[list[Json]] | None = None
    stream: bool | None = False
    temperature: float | None = None
    top_p: float | None = None
    tool_choice: Finite[Any] = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    # their values are in NOT_SUPPORTED
    background: Any = None
    conversation: Any = None
    include: Any = None
    max_tool_calls: Any = None
    previous_response_id: Any = None
    prompt: Any = None
    top_logprobs: Any = None
    truncation: Any = None
    # accepted: they cannot change an answer
    metadata: dict[str, str] | None = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    store: Any = None
    stream_options: ObfuscationOptions | None = None
    user: Any = None

    def chat(self) -> ChatBody:
        """Returns the same request of a chat.

        Raises:
            RequestError: a field would change the answer and is not supported, or an item cannot be
                read.
        """
        for key, idle in NOT_SUPPORTED.items():
            if getattr(self, key) not in idle:
                raise RequestError(f"{key}: not supported by this server", param=key)
        fields: Json = {key: getattr(self, key) for key in PASSED}
        fields["messages"] = _messages(self.input, self.instructions)
        fields["tools"] = [_nested(tool) for tool in self.tools or ()] or None
        choice = self.tool_choice
        if isinstance(choice, dict) and "function" not in choice:
            choice = {"type": "function", "function": {"name": choice.get("name")}}
        fields["tool_choice"] = choice
        if self.text is not None and self.text.format is not None:
            fields["response_format"] = self.text.format.chat()
        fields["max_completion_tokens"] = self.max_output_tokens
        fields["reasoning_effort"] = None if self.reasoning is None else self.reasoning.effort
        try:
            return ChatBody.model_validate(fields)
        except ValidationError as error:
            keys, message = first_fault(error.errors(include_url=False), fields, ChatBody)
            name = NAMES.get(str(keys[0]), str(keys[0]))
            raise RequestError(f"{name}: {message}", param=name) from None


def _messages(items: str | list[Json], instructions: str | None) -> list[Json]:
    turns: list[Json] = []
    if instructions:
        turns.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        return [*turns, {"role": "user", "content": items}]
    for index, item in enumerate(items):
        where, kind = f"input[{index}]", item.get("type", "message")
        if kind == "message" and item.get("role") == "assistant":
            turn = _answering(turns, unless=["content"])
            turn["content"] = _text(item.get("content"), where)
        elif kind == "message":
            turns.append({"role": item.get("role"), "content": _text(item.get("content"), where)})
        elif kind == "reasoning":
            if text := _text(item.get("content") or "", where):
                turn = _answering(turns, unless=["content", "tool_calls"])
                turn["reasoning_content"] = turn.get("reasoning_content", "") + text
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            _answering(turns).setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            output = _text(item.get("output"), where)
            turns.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        else:
            raise RequestError(
                f"{where}: expected a message, a function_call, a function_call_output or "
                f"reasoning, got {kind!r:.40}",
                param="input",
            )
    return turns


def _answering(turns: list[Json], unless: Sequence[str] = ()) -> Json:
    """Returns the assistant's turn that an item belongs to: the last one, or a new one.

    Args:
        turns: the conversation.
        unless: fields of a turn that is over before the item.
    """
    if turns and turns[-1]["role"] == "assistant" and not turns[-1].keys() & {*unless}:
        return turns[-1]
    turns.append({"role": "assistant"})
    return turns[-1]


def _text(content: object, where: str) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):  # pyright: ignore[reportUnknownVariableType]
        parts = cast("list[Json]", content)
        if all(part.get("type") in TEXTS and isinstance(part.get("text"), str) for part in parts):
            return "".join(part["text"] for part in parts)
        kinds = [str(part.get("type")) for part in parts if part.get("type") not in TEXTS]
        if kinds and "image" in kinds[0]:
            raise RequestError(f"{where}: images are not supported: expected text", param="input")
    raise RequestError(f"{where}: expected text or parts of text", param="input")


def _nested(tool: Json) -> Json:
    """Returns the definition of a tool as a chat has it."""
    if tool.get("type") != "function":
        raise RequestError(
            f"tools: expected the type function, got {tool.get('type')!r:.40}", param="tools"
        )
    function = {key: value for key, value in tool.items() if key != "type" and value is not None}
    return {"type": "function", "function": function}


class Items:
    """The items of one answer, and the events of their stream.

    Args:
        body: the request.
        answer: filled while its pieces are added.
    """

    def __init__(self, body: ResponsesBody, answer: Answer) -> None:
        self._body, self._answer = body, answer
        self._id, self._created = f"resp_{secrets.token_hex(16)}", int(time.time())
        self._output: list[Json] = []
        self._open: Json | None = None
        self._count = 0

    def begin(self) -> Iterator[Json]:
        """Yields the events before the first piece."""
        # the first piece may be the last one, too
        begun = self.whole() | {"status": "in_progress", "incomplete_details": None, "usage": None}
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def add(self, piece: Piece) -> Iterator[Json]:
        """Yields the events of a piece."""
        if isinstance(piece, ToolCall):
            yield from self._close()
            yield from self._call(piece)
            return
        kind = "message" if piece[0] == "content" else "reasoning"
        if self._open is None or self._open["type"] != kind:
            yield from self._close()
            yield from self._begin_text(kind)
        self._content["text"] += piece[1]
        name = "output_text" if kind == "message" else "reasoning_text"
        more: Json = {"logprobs": []} if kind == "message" else {}
        yield self._of_part(f"response.{name}.delta", delta=piece[1], **more)

    def end(self) -> Iterator[Json]:
        """Yields the events behind the last piece."""
        yield from self._close()
        response = self.whole()
        yield self._event(f"response.{response['status']}", response=response)

    def failed(self, problem: Json) -> Json:
        """Returns the event of an error."""
        error = {"code": "server_error", "message": problem["message"]}
        response = self.whole() | {"status": "failed", "error": error}
        return self._event("response.failed", response=response)

    def whole(self) -> Json:
        """Returns the response as far as it is known."""
        body, answer = self._body, self._answer
        cut = answer.finish == "length"
        status = "in_progress" if answer.finish is None else "incomplete" if cut else "completed"
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "model": body.model,
            "output": self._output,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": None if body.reasoning is None else body.reasoning.model_dump(),
            "store": False,
            "temperature": answer.sampling.temperature,
            "text": {"format": {"type": "text"}} if body.text is None else _dumped(body.text),
            "tool_choice": body.tool_choice or "auto",
            "tools": body.tools or [],
            "top_p": answer.sampling.top_p,
            "truncation": "disabled",
            "usage": None if answer.finish is None else self._usage(),
        }

    def _usage(self) -> Json:
        read, written = len(self._answer.ids), len(self._answer.tokens)
        return {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},  # OpenAI's clients count on the field
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": self._answer.reasoning_tokens},
            "total_tokens": read + written,
        }

    @property
    def _content(self) -> Json:
        """The text of the open item."""
        return cast("Json", self._output[-1]["content"][0])

    def _begin_text(self, kind: str) -> Iterator[Json]:
        is_message = kind == "message"
        prefix = "msg" if is_message else "rs"
        item: Json = {"id": f"{prefix}_{secrets.token_hex(16)}", "type": kind, "content": []}
        item["status"] = "in_progress"
        if is_message:
            item["role"] = "assistant"
        else:
            item["summary"] = []
        self._output.append(item)
        self._open = item
        yield self._of_item("response.output_item.added", item=_copied(item))
        part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item["content"].append(part if is_message else {"type": "reasoning_text", "text": ""})
        if is_message:
            yield self._of_part("response.content_part.added", part=_copied(self._content))

    def _close(self) -> Iterator[Json]:
        """Yields the events that end the open item."""
        if (item := self._open) is None:
            return
        self._open, item["status"] = None, "completed"
        text = self._content["text"]
        if item["type"] == "message":
            yield self._of_part("response.output_text.done", text=text, logprobs=[])
            yield self._of_part("response.content_part.done", part=self._content)
        else:
            yield self._of_part("response.reasoning_text.done", text=text)
        yield self._of_item("response.output_item.done", item=item)

    def _call(self, call: ToolCall) -> Iterator[Json]:
        item: Json = {
            "id": f"fc_{secrets.token_hex(16)}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        self._output.append(item)
        begun = item | {"arguments": "", "status": "in_progress"}
        yield self._of_item("response.output_item.added", item=begun)
        of_call = {"item_id": item["id"], "name": call.name}
        arguments = call.arguments
        yield self._of_item("response.function_call_arguments.delta", delta=arguments, **of_call)
        yield self._of_item("response.function_call_arguments.done", arguments=arguments, **of_call)
        yield self._of_item("response.output_item.done", item=item)

    def _event(self, kind: str, **fields: Any) -> Json:  # noqa: ANN401
        self._count += 1
        return {"type": kind, "sequence_number": self._count - 1, **fields}

    def _of_item(self, kind: str, **fields: Any) -> Json:  # noqa: ANN401
        return self._event(kind, output_index=len(self._output) - 1, **fields)

    def _of_part(self, kind: str, **fields: Any) -> Json:  # noqa: ANN401
        return self._of_item(kind, item_id=self._output[-1]["id"], content_index=0, **fields)


def _dumped(text: Text) -> Json:
    return text.model_dump(by_alias=True, exclude_none=True)


def _copied(item: Json) -> Json:
    return cast("Json", json.loads(json.dumps(item)))
