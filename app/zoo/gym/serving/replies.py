"""What a model wrote, in its parts: reasoning, content, calls of tools.

The tokens around them differ by family. A tokenizer that describes them (`response_template`)
decides; otherwise they are those of the forms below that occur in the chat template. transformers
parses them, as it does when it serves.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from zoo.gym.data import Tokenizer
from zoo.gym.data.reading.turns.tools import parse_calls
from zoo.gym.data.records import Tools
from zoo.gym.errors import InputError

Part = Literal["reasoning", "content"]

_FUNCTION = {"type": "function", "function": "{content}"}
_NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}

_NO_ANCHOR = "\0"  # the parser reads all of what precedes the answer

_REASONING: Mapping[str, object] = {"open_pattern": r"\A\s*<think>", "close": "</think>"}

_CALLS: Mapping[str, Mapping[str, object]] = {
    "<function=": {  # Qwen3-Coder, Qwen3.5
        "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
        "close_pattern": r"</function>\s*</tool_call>",
        "content": "xml-inline",
        "content_args": {
            "tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"
        },
        "transform": _NAMED,
    },
    "<tool_call>": {  # Qwen2.5, Qwen3, Hermes, SmolLM3
        "open_pattern": r"\s*<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "transform": _FUNCTION,
    },
    "[ARGS]": {  # Mistral since 2025
        "open_pattern": r"\s*\[TOOL_CALLS\](?P<name>[^\[\s]+)\[ARGS\]",
        "close_pattern": r"(?=\[TOOL_CALLS\])",
        "content": "json",
        "transform": _NAMED,
    },
    "[TOOL_CALLS]": {  # Mistral before
        "open_pattern": r"\s*\[TOOL_CALLS\]",
        "content": "json",
        "transform": {
            "type": "function",
            "function": {"name": "{name}", "arguments": "{arguments}"},
        },
        "transform_each": True,
    },
    '"parameters":': {  # Llama 3: an answer that is one object
        "open_pattern": r"\A\s*(?:<\|python_tag\|>)?\s*(?=\{\s*\"name\")",
        "content": "json",
        "transform": {
            "type": "function",
            "function": {"name": "{content.name}", "arguments": "{content.parameters}"},
        },
    },
}
"""How calls are written, by what occurs in the chat templates of those that write them so."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that a model wrote.

    Attributes:
        id: made here, for the turn that answers it.
        arguments: JSON.
    """

    id: str
    name: str
    arguments: str


Piece = tuple[Part, str] | ToolCall


class Reply:
    """Reads one answer while it grows.

    A call that cannot be read, because its JSON is broken or was cut, is content as it was written,
    and so is everything behind it.

    Args:
        tokenizer: the model's.
        prompt: the text of the prompt, which may have begun the reasoning.
        tools: the tools that may be called; without any, nothing is read as a call.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str, tools: Tools) -> None:
        from transformers.utils.chat_parsing import ResponseParser
        from transformers.utils.chat_parsing.response_templates import load_response_template

        template = _template_of(tokenizer)
        if not tools:
            fields = {name: f for name, f in template["fields"].items() if name != "tool_calls"}
            template = template | {"fields": fields}
        begun = "<think>" if prompt.rstrip().endswith("<think>") else ""
        prefix = begun if template["start_anchor"] == _NO_ANCHOR else prompt
        self._parser: Any = ResponseParser(
            template, prefix=prefix, tools=[dict(tool) for tool in tools]
        )
        field = load_response_template(template).fields.get("tool_calls")
        self._opening: Any = None if field is None else field.open_re
        self._raw = ""
        self._last: str | None = None
        self._call_start = 0
        self._is_broken = False

    def add(self, text: str) -> list[Piece]:
        """Appends a part of the answer; returns what is known of it since the last call."""
        pieces: list[Piece] = []
        for character in text:  # an error loses what the parser found before it in the same text
            self._raw += character
            pieces += self._read(self._parser.feed, character)
        return joined(pieces)

    def end(self) -> list[Piece]:
        """Returns what was held back; nothing may be added any more."""
        return [] if self._is_broken else self._read(lambda _: self._parser.finalize()[1], "")

    def _read(self, events: Callable[[str], list[dict[str, Any]]], text: str) -> list[Piece]:
        if self._is_broken:
            return [("content", text)]
        try:
            return list(self._pieces(events(text)))
        except (InputError, ValueError, KeyError, TypeError, RecursionError):
            self._is_broken = True
            return [("content", self._raw[self._call_start :])]

    def _pieces(self, events: list[dict[str, Any]]) -> Iterator[Piece]:
        for event in events:
            field = event["field"]
            if event["type"] == "region_open" and field == "tool_calls":
                openings = self._opening.finditer(self._raw)
                self._call_start = max(match.start() for match in openings)
            elif event["type"] == "region_close" and field == "tool_calls":
                values = event["value"]
                yield from map(_call, values if isinstance(values, list) else [values])
            elif event["type"] == "region_chunk" and not event["dirty"]:
                part: Part = "content" if field == "content" else "reasoning"
                # the line ends between a block of reasoning and the answer belong to neither
                text = event["text"] if self._last == part else event["text"].lstrip("\n")
                if text:
                    self._last = part
                    yield part, text


def joined(pieces: list[Piece]) -> list[Piece]:
    """Returns pieces with neighbours of one part as one."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, tuple) and isinstance(last, tuple) and piece[0] == last[0]:
            merged[-1] = (piece[0], last[1] + piece[1])
        else:
            merged.append(piece)
    return merged


def _call(value: Mapping[str, Any]) -> ToolCall:
    function = value["function"]
    written = {"name": function["name"], "arguments": function.get("arguments")}
    # read as it will be when it is sent back: a conversation with it has to go on
    (call,) = parse_calls({"tool_calls": [written]}, "answer")
    arguments = json.dumps(call.arguments, ensure_ascii=False, allow_nan=False)
    f"{call.name}{arguments}".encode()  # JSON can hold half a surrogate pair, a response cannot
    return ToolCall(f"call_{secrets.token_hex(12)}", call.name, arguments)


def require_calls(tokenizer: Tokenizer) -> None:
    """Refuses a model whose calls cannot be told from its text.

    Raises:
        InputError: neither its tokenizer nor its chat template says how calls are written.
    """
    if "tool_calls" not in _template_of(tokenizer)["fields"]:
        raise InputError(
            "tools: expected a model whose chat template says how it calls tools in a known form, "
            "got none",
            code="serving.no_tools",
        )


def forced_call(tokenizer: Tokenizer, tools: Tools) -> str:
    """Returns the form of a call of one of the tools, as JSON; see `zoo.gym.serving.forms`.

    Raises:
        InputError: the model does not write calls as JSON with a name in it.
    """
    source = tokenizer.get_chat_template(tools=[])
    form = _form_of(source)
    if form not in _FORCED or getattr(tokenizer, "response_template", None):
        raise InputError(
            "tool_choice: expected 'auto' for this model, whose form of calls cannot be forced",
            code="serving.no_forced_calls",
        )
    begin, key, end = _FORCED[form]
    calls: list[object] = []
    parameters: dict[str, object] = {}
    for index, tool in enumerate(tools):
        function: Any = tool["function"]
        schema = _moved(function.get("parameters") or {}, f"#/$defs/{index}")
        parameters[str(index)] = {**schema, "type": "object"}  # arguments always are one
        fields = {"name": {"const": function["name"]}, key: {"$ref": f"#/$defs/{index}"}}
        calls.append(
            {
                "type": "object",
                "properties": fields,
                "required": list(fields),
                "additionalProperties": False,
            }
        )
    schema = {"anyOf": calls, "$defs": parameters}
    return json.dumps({"begin": begin, "schema": schema, "end": end})


def _moved(schema: Any, place: str) -> Any:  # noqa: ANN401
    """Returns a schema whose references within itself are right where it is a part of another."""
    if isinstance(schema, list):
        return [_moved(part, place) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(part, place) for key, part in schema.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = place + reference.removeprefix("#")
    return moved


_FORCED = {
    "<tool_call>": ("<tool_call>\n", "arguments", "\n</tool_call>"),
    '"parameters":': ("", "parameters", ""),
}
"""What stands before a call, the key of its arguments, and what stands behind it."""


def _form_of(source: str) -> str | None:
    return next((mark for mark in _CALLS if mark in source), None)


def _template_of(tokenizer: Tokenizer) -> dict[str, Any]:
    stated = cast("dict[str, Any] | None", getattr(tokenizer, "response_template", None))
    if stated:
        return stated
    source = tokenizer.get_chat_template(tools=[]) if tokenizer.chat_template else ""
    mark = _form_of(source)
    fields: dict[str, object] = {"reasoning_content": _REASONING, "content": {"content": "text"}}
    if mark is not None:
        fields["tool_calls"] = {**_CALLS[mark], "repeats": True}
    return {"start_anchor": _NO_ANCHOR, "fields": fields}
