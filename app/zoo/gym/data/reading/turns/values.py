"""Reads single values of rows, and describes them in messages."""

from collections.abc import Mapping
from typing import cast

from zoo.gym.data.reading.jsonl import decode
from zoo.gym.errors import InputError

MOST_NESTED = 100
"""Levels of objects and lists in definitions and arguments of tools, which are read recursively."""

_SHOWN_CHARACTERS = 60

_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def type_name(value: object) -> str:
    """Returns the type of a JSON value, in words."""
    return _NAMES.get(type(value), type(value).__name__)


def shown(text: str) -> str:
    """Returns a string from the data for a message: quoted, escaped, and shortened if long."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def described(value: object) -> str:
    """Returns a value for a message: a text itself, of any other value its type."""
    return shown(value) if isinstance(value, str) else type_name(value)


def wrong_type(where: str, expected: str, value: object) -> InputError:
    """Returns the error for a value that does not have the expected type."""
    got = described(value)
    return InputError(f"{where}: expected {expected}, got {got}", code="data.wrong_type")


def text_of(value: object, key: str) -> str:
    """Returns a value that must be text; a list of text parts is joined.

    Args:
        value: a string, or OpenAI content parts `[{"type": "text", "text": ...}]`.

    Raises:
        InputError: the value is not text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return "".join(_part(part, key) for part in cast("list[object]", value))
    raise wrong_type(repr(key), "text", value)


def _part(part: object, key: str) -> str:
    got = type_name(part)
    if isinstance(part, dict):
        fields = cast("dict[str, object]", part)
        text = fields.get("text", fields.get("value"))
        if fields.get("type") == "text" and isinstance(text, str):
            return text
        got = f"a part of {described(fields.get('type'))}"
    raise InputError(f"{key!r}: expected parts of text, got {got}", code="data.wrong_type")


def word_of(fields: Mapping[str, object], key: str, where: str) -> str:
    """Returns a text, empty if the key is absent or null.

    Raises:
        InputError: the value is not text.
    """
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise wrong_type(f"{where}: {key!r}", "text", value)
    return value or ""


def object_of(value: object, where: str) -> dict[str, object]:
    """Returns a value that must be an object.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, dict):
        raise wrong_type(where, "an object", value)
    return cast("dict[str, object]", value)


def list_of(value: object, where: str, expected: str = "a list") -> list[object]:
    """Returns a value that must be a list.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, list):
        raise wrong_type(where, expected, value)
    return cast("list[object]", value)


def json_of(text: str, where: str) -> object:
    """Returns the value of JSON in a text.

    Raises:
        InputError: the text is not JSON.
    """
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except InputError as error:
        message = f"{where}: expected JSON, got {shown(text)}: {error.message}"
        raise InputError(message, code=error.code) from None


def require_shallow(value: object, where: str) -> None:
    """Refuses a value with more than `MOST_NESTED` levels.

    Raises:
        InputError: it has more.
    """
    level: list[object] = [value]
    for _ in range(MOST_NESTED):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise InputError(
        f"{where}: nested too deeply: expected at most {MOST_NESTED} levels",
        code="data.nested_too_deeply",
    )


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []
