"""Parses calls of tools and the definitions of tools.

Calls are `tool_calls` or the older `function_call` of an OpenAI turn, or the text of a turn of the
role `function_call` in ShareGPT data: a call in JSON, or a list of calls. A call is
`{"name": ..., "arguments": {...}}`, by itself or under `function`; arguments may be JSON in a text.
Definitions are a row's `tools` or `functions`: a list, or a list as JSON in a text, of OpenAI's
objects or of functions alone.
"""

from collections.abc import Mapping, Sequence, Set
from typing import cast

from zoo.gym.data.reading.turns.values import (
    described,
    json_of,
    object_of,
    require_shallow,
    shown,
    type_name,
    word_of,
)
from zoo.gym.data.records import Call, Message, Tools
from zoo.gym.errors import InputError

TOOLS_KEYS = ("tools", "functions")
"""A row's keys of the definitions of tools."""

SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
"""The keys of the schema of a tool's parameters: OpenAI's, Anthropic's and MCP's."""

CALL_KEYS = ("tool_calls", "function_call")
"""An assistant turn's keys of its calls."""

RESULT_KEYS = ("name", "tool_call_id")
"""A tool turn's keys of the tool that it is from, and of the call that it answers."""

CALL_ROLE = "function_call"
"""The role of an assistant turn whose text is a call."""

_AROUND_CALL = frozenset({"id", "type", "index", "function"})
_CALL = frozenset({"name", "arguments"})


def parse_calls(fields: Mapping[str, object], where: str) -> tuple[Call, ...]:
    """Returns the calls under the keys of a turn.

    Args:
        fields: the turn.
        where: `messages[1]`.

    Raises:
        InputError: there is a call without a name, or arguments that are no object.
    """
    given = [key for key in CALL_KEYS if fields.get(key)]
    if len(given) > 1:
        raise InputError(f"{where}: expected 'tool_calls' or 'function_call', got both")
    if not given:
        return ()
    key, value = given[0], fields[given[0]]
    if key == "function_call":
        return (_call(value, f"{where}.{key}"),)
    return _calls(value, f"{where}.{key}")


def calls_in_text(text: str, where: str) -> tuple[Call, ...]:
    """Returns the call that a text is in JSON, or the calls of a list.

    Raises:
        InputError: the text is not JSON; see also `parse_calls`.
    """
    value = json_of(text, where)
    return _calls(value, where) if isinstance(value, list) else (_call(value, where),)


def _calls(value: object, where: str) -> tuple[Call, ...]:
    if not isinstance(value, list) or not value:
        got = "an empty one" if isinstance(value, list) else type_name(value)
        raise InputError(f"{where}: expected a list of calls, got {got}")
    listed = enumerate(cast("list[object]", value))
    return tuple(_call(one, f"{where}[{index}]") for index, one in listed)


def _call(value: object, where: str) -> Call:
    fields = object_of(value, where)
    function, known = fields, _AROUND_CALL | _CALL
    if "function" in fields:
        function, known = object_of(fields["function"], f"{where}.function"), _AROUND_CALL
        _refuse_others(function, _CALL, where)
    _refuse_others(fields, known, where)
    _require_function(fields, where)
    arguments = _arguments(function.get("arguments"), f"{where}.arguments")
    return Call(_name(function, where), arguments, word_of(fields, "id", where))


def _refuse_others(fields: Mapping[str, object], known: Set[str], where: str) -> None:
    for key, value in fields.items():
        if key not in known and value is not None:
            raise InputError(f"{where}: expected 'name' and 'arguments', got {shown(key)}")


def _require_function(fields: Mapping[str, object], where: str) -> None:
    if fields.get("type") not in (None, "function"):
        raise InputError(f"{where}.type: expected 'function', got {described(fields['type'])}")


def _name(fields: Mapping[str, object], where: str) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{where}.name: expected the name of a tool, got {described(name)}")
    return name


def _arguments(value: object, where: str) -> Mapping[str, object]:
    """Returns the arguments of a call; none are an empty object."""
    if isinstance(value, str):
        value = json_of(value, where) if value.strip() else None
    found = {} if value is None else object_of(value, where)
    require_shallow(found, where)
    return found


def require_calls(turns: Sequence[Message]) -> None:
    """Refuses tool turns that answer no call.

    Raises:
        InputError: a tool turn follows neither an assistant turn with calls nor another tool turn.
    """
    before: Message | None = None
    for turn in turns:
        if turn.role == "tool" and not (before and (before.calls or before.role == "tool")):
            got = f"a turn of the {before.role}" if before else "none"
            raise InputError(
                "a tool turn without a call: expected an assistant turn with tool calls before it, "
                f"got {got}"
            )
        before = turn


def parse_tools(row: Mapping[str, object]) -> Tools:
    """Returns the definitions of the tools that a row has, in the form of OpenAI.

    Raises:
        InputError: they are no list, one is no definition of a function, or two lists differ.
    """
    lists = [_definitions(row[key], key) for key in TOOLS_KEYS if row.get(key)]
    found = [tools for tools in lists if tools]
    if len(found) > 1 and found[0] != found[1]:
        raise InputError("two lists of tools: expected 'tools' or 'functions', got both")
    return found[0] if found else ()


def _definitions(value: object, key: str) -> Tools:
    if isinstance(value, str):
        value = json_of(value, repr(key)) if value.strip() else []
    if not isinstance(value, list):
        raise InputError(f"{key!r}: expected a list of tools, got {described(value)}")
    tools = cast("list[object]", value)
    require_shallow(tools, repr(key))
    return tuple(_definition(one, f"{key}[{index}]") for index, one in enumerate(tools))


def _definition(value: object, where: str) -> Mapping[str, object]:
    """Returns the definition of a tool; that of a function alone becomes OpenAI's object."""
    fields = object_of(value, where)
    _require_function(fields, where)
    if "function" in fields:
        function, whole = object_of(fields["function"], f"{where}.function"), fields
    else:
        function = {key: item for key, item in fields.items() if key != "type"}
        whole = {"type": "function", "function": function}
    _name(function, where)
    whole = {**whole, "function": _with_parameters(function, where)}
    if whole.get("type"):
        return whole
    return {"type": "function", **{key: item for key, item in whole.items() if key != "type"}}


def _with_parameters(function: Mapping[str, object], where: str) -> Mapping[str, object]:
    """Returns a function whose schema is under OpenAI's key, where Anthropic's or MCP's had it.

    Raises:
        InputError: the schema is no object, or there are two.
    """
    keys = [key for key in SCHEMA_KEYS if function.get(key) is not None]
    if len(keys) > 1:
        raise InputError(
            f"{where}: expected one schema of the parameters, got {' and '.join(keys)}"
        )
    for key in keys:
        object_of(function[key], f"{where}.{key}")
    return {
        "parameters" if key in keys else key: item
        for key, item in function.items()
        if key in keys or key not in SCHEMA_KEYS or (key == "parameters" and not keys)
    }
