"""What single settings accept: paths, rows, numbers and dates, converted or refused."""

import datetime as dt
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeGuard, cast

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from zoo.gym.config import report
from zoo.gym.errors import InputError

Rows: TypeAlias = tuple[Mapping[str, object], ...]
"""Examples from Python."""

Data: TypeAlias = (
    str
    | os.PathLike[str]
    | Iterable[str | os.PathLike[str] | Mapping[str, object]]
    | Mapping[str, Sequence[object]]
)
"""What `dataset` accepts in Python: a file, files, rows, or columns by name."""


MOST_SEED = 2**63 - 1
"""The largest seed that every random number generator accepts."""


def chosen(**limits: Any) -> Any:  # noqa: ANN401 - as pydantic's own Field
    """Returns a field whose value is chosen when the run starts, unless it is given."""
    return Field(default=None, json_schema_extra={"chosen": True}, **limits)


def is_chosen(field: FieldInfo) -> bool:
    """Returns whether a setting that is not given is chosen when the run starts."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("chosen"))


def refuse_bool(value: object) -> object:
    """Refuses true and false, which Python would accept as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("not_a_number", "not a number")
    return value


def path_text(value: object) -> object:
    """Converts a `Path` to text."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def public_place(path: str) -> str:
    """Returns a name as it is, and only the last part of a path on this machine."""
    is_path = Path(path).is_absolute() or path.startswith((".", "~"))
    return Path(path).name if is_path else path


def folder_text(value: object) -> object:
    """Converts a `Path` to text that cannot be a name on the hub: `./org/name`."""
    text = path_text(value)
    if text is value or not isinstance(text, str) or Path(text).is_absolute():
        return text
    return f"{os.curdir}{os.sep}{text}"


def sorted_names(value: object) -> object:
    """Returns a list of names, or names separated by commas, as sorted names in one text."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        return value
    names = cast("Sequence[object]", value)
    return ",".join(sorted({str(name).strip() for name in names})) if names else "none"


def split_paths(value: object) -> object:
    """Parses one path, or several separated by commas, as in LLaMA-Factory."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    paths = [value] if isinstance(value, os.PathLike) else value
    if not isinstance(paths, list | tuple):  # pydantic would read the columns of a data frame
        raise PydanticCustomError("tuple_type", "not a list")
    _refuse_rows(cast("Sequence[object]", paths))
    return tuple(map(path_text, paths))


def _refuse_rows(paths: Sequence[object]) -> None:
    """Refuses rows among files: rows alone are no longer in `dataset` when it is checked."""
    marks = [isinstance(entry, Mapping) for entry in paths]
    if all(marks) and paths:
        text = "expected files, got rows, which only Python code can pass"
        raise PydanticCustomError("sentence", "{text}", {"text": text})
    if any(marks):
        row, other = marks.index(True) + 1, marks.index(False) + 1
        text = (
            f"expected only files or only rows, got a row (entry {row}) and "
            f"{report.shown(paths[other - 1])} (entry {other})"
        )
        raise PydanticCustomError("sentence", "{text}", {"text": text})


def listed(value: object) -> object:
    """Returns what a generator yields as a list, and the rows of any other iterable.

    Columns of equal length, as a slice of a Hugging Face dataset is, become rows.
    """
    if isinstance(value, Mapping):
        return _rows_of(cast("Mapping[object, object]", value))
    if isinstance(value, list | tuple | str | bytes) or not isinstance(value, Iterable):
        return value
    entries = list(cast("Iterable[object]", value))
    return entries if isinstance(value, Iterator) or are_rows(entries) else value


def _rows_of(columns: Mapping[object, object]) -> object:
    lists = [value for value in columns.values() if isinstance(value, list)]
    if len({len(cast("list[object]", column)) for column in lists}) != 1 or len(lists) < len(
        columns
    ):
        return columns
    names = [str(name) for name in columns]
    cells = zip(*cast("list[list[object]]", lists), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def are_rows(value: object) -> TypeGuard[Sequence[Mapping[str, object]]]:
    """Returns whether a value is a list of rows that is not empty."""
    if not isinstance(value, list | tuple):
        return False
    entries = cast("Sequence[object]", value)
    return bool(entries) and all(isinstance(entry, Mapping) for entry in entries)


def iso_date(value: object) -> object:
    """Converts a YAML date back to text and refuses anything else."""
    if isinstance(value, dt.date):
        return value.isoformat()[:10]
    try:
        return dt.date.fromisoformat(value if isinstance(value, str) else "").isoformat()
    except ValueError:
        raise PydanticCustomError("not_a_date", "not a date") from None


def template_name(value: object) -> object:
    """Refuses a name of a template that is neither ours nor that of a file."""
    from zoo.gym.data.templates import named_template

    try:
        return None if value is None else named_template(value)
    except InputError as error:
        raise PydanticCustomError("sentence", "{text}", {"text": error.message}) from None


def role_columns(value: object) -> object:
    """Parses the column of each role: `prompt:Question,response:Answer`, or a mapping."""
    from zoo.gym.data.reading.columns import parse_columns

    if value is None:
        return None
    try:
        return parse_columns(value)
    except InputError as error:
        raise PydanticCustomError("sentence", "{text}", {"text": error.message}) from None


Whole = Annotated[int, BeforeValidator(refuse_bool)]
Number = Annotated[float, BeforeValidator(refuse_bool)]


def joined(value: object) -> object:
    """Joins a list by commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


Listed = Annotated[str, BeforeValidator(joined)]
"""Text of parts separated by commas; a list is joined."""
