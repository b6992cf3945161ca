"""Reads a settings file: YAML, with the line of every key.

A file is one mapping. Values are built by PyYAML's safe constructor; duplicate keys are refused,
which PyYAML does not do. Whole numbers are decimal, as in flags: YAML 1.1 reads 010 as 8 and 1:30
as 90.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from zoo.gym.errors import InputError, NotAvailableError

MAX_BYTES = 1_000_000
"""Settings files are small; a larger one is data with the wrong suffix."""

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
"""Errors that PyYAML's constructors raise for odd numbers, dates and keys."""


_MERGE = "tag:yaml.org,2002:merge"
_INT = "tag:yaml.org,2002:int"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)$")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with only decimal whole numbers."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name and type
        first: [(tag, pattern) for tag, pattern in known if tag != _INT]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(_INT, _DECIMAL, list("-+0123456789"))


@dataclass(frozen=True)
class Entry:
    """One line of a settings file."""

    key: str
    value: object
    line: int


def read_entries(path: Path) -> list[Entry]:
    """Reads the settings of a file in order; an empty file has none.

    Raises:
        NotAvailableError: there is no such file.
        InputError: the file is not one YAML mapping; the message has every duplicate key.
    """
    text = _read_text(path)
    try:
        entries = list(_compose(path, _Loader(text)))
    except yaml.MarkedYAMLError as error:
        raise InputError(
            f"{path}:{_line(error)}: broken YAML: {_problem(error)}", code="files.broken_yaml"
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(
            f"{path}:{line}: broken YAML: a character that is not allowed", code="files.broken_yaml"
        ) from None
    except RecursionError:
        raise InputError(
            f"{path}: broken YAML: nested too deeply", code="files.broken_yaml"
        ) from None
    _refuse_duplicates(path, entries)
    return entries


def parse_value(text: str) -> object:
    """Parses one value as YAML: `true`, `3`, `[a, b]`; text that is not YAML stays text."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, *UNREADABLE):
        return text


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise NotAvailableError(
            f"{path}: no such file: expected a YAML file of settings", code="files.no_such_file"
        )
    if (size := path.stat().st_size) > MAX_BYTES:
        raise InputError(
            f"{path}: expected at most {MAX_BYTES} bytes of settings, got {size}",
            code="files.yaml_too_large",
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not text: expected UTF-8, got an invalid byte at {error.start}",
            code="files.not_text",
        ) from None


def _compose(path: Path, loader: _Loader) -> Iterator[Entry]:
    node = loader.get_single_node()
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "one value"
        line = node.start_mark.line + 1
        raise InputError(
            f"{path}:{line}: expected 'key: value' lines, got {kind}", code="files.not_settings"
        )
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise InputError(
                f"{path}:{line}: expected the name of a setting, got a list or a mapping",
                code="files.not_settings",
            )
        if key_node.tag == _MERGE:
            raise InputError(
                f"{path}:{line}: <<: merge keys are not supported: expected the settings",
                hint="several settings files can be given one after the other; later ones win",
                code="files.merge_keys",
            )
        try:
            value: object = loader.construct_object(value_node, deep=True)
        except UNREADABLE as error:
            raise InputError(
                f"{path}:{line}: {key_node.value}: unreadable value: {error}",
                code="files.unreadable_value",
            ) from None
        yield Entry(str(key_node.value), value, line)


def _refuse_duplicates(path: Path, entries: list[Entry]) -> None:
    first: dict[str, int] = {}
    faults: list[str] = []
    for entry in entries:
        if entry.key in first:
            faults.append(f"{path}:{entry.line}: {entry.key}: also on line {first[entry.key]}")
        first.setdefault(entry.key, entry.line)
    if faults:
        raise InputError("\n".join(faults), code="files.duplicate_key")


def _line(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return 1 if mark is None else mark.line + 1


def _problem(error: yaml.MarkedYAMLError) -> str:
    return (error.problem or error.context or "unreadable").replace("\n", " ")
