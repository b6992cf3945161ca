"""What is wrong with a request, in our words in place of pydantic's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from pydantic import BaseModel
from pydantic_core import from_json

from zoo.gym.config.report import nearest, shown, wanted
from zoo.gym.serving.wire import RequestError

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

SCHEMA = "response_format.json_schema.schema"

MOVED = {
    "response_format.schema": SCHEMA,
    "response_format.json_schema.type": SCHEMA,
    "response_format.json_schema.properties": SCHEMA,
}
"""Where a field is meant to be that is often sent at another place."""

TEXTS = ("messages", "input", "prompt")
"""What is to be answered, as the three routes call it."""

Keys = tuple[str | int, ...]


def request_error(
    error: "ValidationError", raw: str | bytes, kind: type[BaseModel]
) -> RequestError:
    """Returns the first fault of a request.

    Args:
        error: what pydantic reports.
        raw: the request.
        kind: its form.
    """
    faults = error.errors(include_url=False)
    if faults[0]["type"] == "json_invalid":
        return RequestError(f"body: expected JSON: {faults[0].get('ctx', {})['error']}")
    keys, message = first_fault(faults, from_json(raw), kind)
    where = ".".join(str(key) for key in keys) or "body"
    return RequestError(f"{where}: {message}", param=str(keys[0]) if keys else None)


def first_fault(
    faults: Sequence["ErrorDetails"],
    data: Any,  # noqa: ANN401 - of any form
    kind: type[BaseModel],
) -> tuple[Keys, str]:
    """Returns where a request is wrong first, and what was expected there.

    To pydantic each form that a value may have is a fault of its own: they become one.
    """
    # an unknown name is often a misspelling of the one that is missing
    first = min(faults, key=lambda fault: fault["type"] == "missing")
    # the part of the location that is the name of a form, as `literal['auto']`
    stays = _kept(first, data)
    form = stays.index(False) if False in stays else None
    same = [
        fault
        for fault in faults
        if fault is first or (form is not None and fault["loc"][:form] == first["loc"][:form])
    ]
    # the form that fits best is wrong at the innermost place
    keys = max((_keys(fault, data) for fault in same), key=len)
    same = [fault for fault in same if _keys(fault, data) == keys]
    for fault in same:
        if (words := _words(fault, keys, kind)) is not None:
            return keys, words
    expected = list(dict.fromkeys(wanted(fault) for fault in same))
    listed = " or ".join([*filter(None, [", ".join(expected[:-1])]), expected[-1]])
    value = same[0]["input"]
    got = repr(value[:60]) if isinstance(value, str) else shown(value)
    return keys, f"expected {listed}, got {got}"


def _keys(fault: "ErrorDetails", data: object) -> Keys:
    """Returns the location without the names of forms."""
    parts = zip(fault["loc"], _kept(fault, data), strict=True)
    return tuple(part for part, stays in parts if stays)


def _kept(fault: "ErrorDetails", data: Any) -> list[bool]:  # noqa: ANN401 - of any form
    """Returns for each part of the location whether it is a key or an index of the request."""
    stays: list[bool] = []
    for part in fault["loc"]:
        is_key = isinstance(data, dict) and part in data
        is_index = isinstance(data, list) and isinstance(part, int)
        is_missing = fault["type"] == "missing" and len(stays) == len(fault["loc"]) - 1
        stays.append(is_key or is_index or is_missing)
        if is_key or is_index:
            data = cast("Any", data)[part]
    return stays


def _words(fault: "ErrorDetails", keys: Keys, kind: type[BaseModel]) -> str | None:
    """Returns the message of a fault that has its own words."""
    if fault["type"] == "missing":
        return "expected a value, got nothing"
    if fault["type"] == "extra_forbidden":
        meant = _meant(keys, kind)
        return "no such field" + (f"; did you mean {meant}?" if meant else "")
    return fault["msg"] if fault["msg"].startswith("expected") else None


def _meant(keys: Keys, kind: type[BaseModel]) -> str | None:
    """Returns the field that was probably meant by an unknown one."""
    model: type[BaseModel] | None = kind
    for key in keys[:-1]:
        if isinstance(key, str) and model is not None:
            model = _model_in(_fields(model).get(key))
    if model is None:
        return None
    name, names = str(keys[-1]), _fields(model)
    if model is kind and name in TEXTS:
        return next((text for text in TEXTS if text in names), None)
    return MOVED.get(".".join(map(str, keys))) or nearest(name, names)


def _fields(model: type[BaseModel]) -> dict[str, object]:
    """Returns the types of the fields of a model, by their names in a request."""
    return {
        field.alias or name: cast("object", field.annotation)
        for name, field in model.model_fields.items()
    }


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Returns the model of objects that are values of a type, or are in them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in models if model is not None), None)
