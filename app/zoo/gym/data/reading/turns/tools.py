"""Parses calls of tools and the definitions of tools.

Calls are `tool_calls` or the older `function_call` of an OpenAI turn, or the text of a turn of the
role `function_call` in ShareGPT data: a call in JSON, or a list of calls. A call is
`{"name": ..., "arguments": {...}}`, by itself or under `function`; arguments may be JSON in a text.
Definitions are a row's `tools` or `functions`: a list, or a list as JSON in a text, of OpenAI's
objects or of functions alone.
"""

from collections.abc import Mapping, Sequence, Set

from zoo.gym.data.reading.turns.values import (
    described,
    json_of,
    list_of,
    object_of,
    require_shallow,
    shown,
    word_of,
)
from zoo.gym.data.records import Call, Message, Tools
from zoo.gym.errors import InputError

TOOLS_KEYS = ("tools", "functions")

SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
"""The keys of the schema of a tool's parameters: OpenAI's, Anthropic's and MCP's."""

CALL_KEYS = ("tool_calls", "function_call")
"""An assistant turn's keys of its calls."""

RESULT_KEYS = ("name", "tool_call_id")
"""A tool turn's keys of the tool that it is from, and of the call that it answers."""

CALL_ROLE = "function_call"
"""The role of an assistant turn with a call as its text."""

_AROUND_CALL = frozenset({"id", "type", "index", "function"})
_CALL = frozenset({"name", "arguments"})


def parse_calls(fields: Mapping[str, object], where: str) -> tuple[Call, ...]:
    """Returns the calls under the keys of a turn.

    Raises:
        InputError: there is a call without a name, or arguments that are no object.
    """
    keys = [key for key in CALL_KEYS if fields.get(key)]
    if len(keys) > 1:
        raise InputError(
            f"{where}: expected 'tool_calls' or 'function_call', got both", code="data.tool_call"
        )
    if not keys:
        return ()
    value, where = fields[keys[0]], f"{where}.{keys[0]}"
    return (_call(value, where),) if keys == ["function_call"] else _calls(value, where)


def calls_in_text(text: str, where: str) -> tuple[Call, ...]:
    """Returns the call that a text is in JSON, or the calls of a list.

    Raises:
        InputError: the text is not JSON; see also `parse_calls`.
    """
    value = json_of(text, where)
    return _calls(value, where) if isinstance(value, list) else (_call(value, where),)


def _calls(value: object, where: str) -> tuple[Call, ...]:
    calls = list_of(value, where, "a list of calls")
    if not calls:
        raise InputError(
            f"{where}: expected a list of calls, got an empty one", code="data.tool_call"
        )
    return tuple(_call(call, f"{where}[{index}]") for index, call in enumerate(calls))


def _call(value: object, where: str) -> Call:
    fields = object_of(value, where)
    function, allowed = fields, _AROUND_CALL | _CALL
    if "function" in fields:
        function, allowed = object_of(fields["function"], f"{where}.function"), _AROUND_CALL
        _refuse_other_keys(function, _CALL, where)
    _refuse_other_keys(fields, allowed, where)
    _require_function(fields, where)
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = json_of(arguments, f"{where}.arguments") if arguments.strip() else None
    arguments = {} if arguments is None else object_of(arguments, f"{where}.arguments")
    require_shallow(arguments, f"{where}.arguments")
    return Call(_name(function, where), arguments, word_of(fields, "id", where))


def _refuse_other_keys(fields: Mapping[str, object], allowed: Set[str], where: str) -> None:
    for key, value in fields.items():
        if key not in allowed and value is not None:
            raise InputError(
                f"{where}: expected 'name' and 'arguments', got {shown(key)}", code="data.tool_call"
            )


def _require_function(fields: Mapping[str, object], where: str) -> None:
    if fields.get("type") not in (None, "function"):
        got = described(fields["type"])
        raise InputError(f"{where}.type: expected 'function', got {got}", code="data.tool_type")


def _name(fields: Mapping[str, object], where: str) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not name.strip():
        got = described(name)
        raise InputError(
            f"{where}.name: expected the name of a tool, got {got}", code="data.tool_name"
        )
    return name


def require_calls(turns: Sequence[Message]) -> None:
    """Refuses tool turns that answer no call.

    Raises:
        InputError: a tool turn follows neither an assistant turn with calls nor another tool turn.
    """
    for previous, turn in zip((None, *turns), turns, strict=False):
        if turn.role == "tool" and not (previous and (previous.calls or previous.role == "tool")):
            got = f"a turn of the {previous.role}" if previous else "none"
            raise InputError(
                "a tool turn without a call: expected an assistant turn with tool calls before it, "
                f"got {got}",
                code="data.tool_turn",
            )


def parse_tools(row: Mapping[str, object]) -> Tools:
    """Returns the definitions of the tools that a row has, in the form of OpenAI.

    Raises:
        InputError: they are no list, one is no definition of a function, or two lists differ.
    """
    lists = [_definitions(row[key], key) for key in TOOLS_KEYS if row.get(key)]
    lists = [tools for tools in lists if tools]
    if len(lists) > 1 and lists[0] != lists[1]:
        raise InputError(
            "two lists of tools: expected 'tools' or 'functions', got both", code="data.two_tools"
        )
    return lists[0] if lists else ()


def _definitions(value: object, key: str) -> Tools:
    if isinstance(value, str):
        value = json_of(value, repr(key)) if value.strip() else []
    tools = list_of(value, repr(key), "a list of tools")
    require_shallow(tools, repr(key))
    return tuple(_definition(tool, f"{key}[{index}]") for index, tool in enumerate(tools))


def _definition(value: object, where: str) -> Mapping[str, object]:
    """Returns the definition of a tool; that of a function alone becomes OpenAI's object."""
    fields = object_of(value, where)
    _require_function(fields, where)
    if "function" in fields:
        function = object_of(fields["function"], f"{where}.function")
    else:
        function = {key: part for key, part in fields.items() if key != "type"}
        fields = {}
    _name(function, where)
    typed = {} if fields.get("type") else {"type": "function"}
    return {
        **typed,
        **{key: part for key, part in fields.items() if key not in typed},
        "function": _with_parameters(function, where),
    }


def _with_parameters(function: Mapping[str, object], where: str) -> Mapping[str, object]:
    """Returns a function with its schema under OpenAI's key, also if it is Anthropic's or MCP's."""
    keys = [key for key in SCHEMA_KEYS if function.get(key) is not None]
    if len(keys) > 1:
        raise InputError(
            f"{where}: expected one schema of the parameters, got {' and '.join(keys)}",
            code="data.tool_schema",
        )
    for key in keys:
        object_of(function[key], f"{where}.{key}")
    return {
        "parameters" if key in keys else key: part
        for key, part in function.items()
        if key in keys or key not in SCHEMA_KEYS or (key == "parameters" and not keys)
    }
