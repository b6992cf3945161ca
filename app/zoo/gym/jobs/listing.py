"""Lists all runs with their current state, read from their folders with the help of the index."""

import errno
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from zoo.gym.errors import GymError
from zoo.gym.files import read_small
from zoo.gym.jobs.events import EventReader
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.run import Run, run_folders
from zoo.gym.jobs.state import STATES, State, Status, fold, reconcile
from zoo.gym.store import RunIndex, RunRow

EVENTS, CONFIG = "events.jsonl", "config.yaml"

LISTED = ("model_name_or_path", "model", "stage")
"""The settings that a list has."""

MOST_DEPTH = 100
"""Settings that are nested more deeply are not read."""

_PLAIN = rb"(?:[A-Za-z0-9./_][A-Za-z0-9./_+-]*|'[A-Za-z0-9./_+-]*')"
_PLAIN_FILE = re.compile(
    rb"(?:[a-z][a-z0-9_]*:(?: %b| \[\]| \{\}|(?:\n- %b)+)\n)+" % (_PLAIN, _PLAIN)
)
_LISTED_LINES = re.compile(rf"^({'|'.join(LISTED)}): (.*)$", re.MULTILINE)
_NO_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off"})

MOST_BYTES = 1_000_000
"""A larger settings file is not read."""


def list_runs() -> list[RunRow]:
    """Returns every run, newest first; those whose process is gone are marked interrupted."""
    with RunIndex() as index:
        indexed = index.rows()
        rows = [_row(run, indexed.get(run.id)) for run in run_folders()]
        changed = [row for row in rows if row != indexed.get(row.id)]
        gone = indexed.keys() - {row.id for row in rows}
        if changed or gone:
            # it may be locked or the disk full: the next listing stores it
            with suppress(sqlite3.Error, UnicodeError, OverflowError):
                index.update(changed, gone)
    return rows


def _row(run: Run, indexed: RunRow | None) -> RunRow:
    """Returns a run's row; a damaged folder does not keep the others off the list."""
    try:
        return _read_row(run, indexed)
    except (OSError, GymError) as error:
        reason = error.message if isinstance(error, GymError) else _reason(error)
        return _new_row(run, "damaged", fault=f"{EVENTS}: {reason}")


def _read_row(run: Run, indexed: RunRow | None) -> RunRow:
    stamp = _stamp(run)
    if (
        indexed is None
        or indexed.state == "damaged"
        or indexed.stamp != stamp
        or indexed.folder != str(run.folder)
    ):
        settings, fault = _listed_settings(run)
        model, fault = (None, fault) if fault is not None else _model(settings)
        stage = None if fault is not None else _stage(settings)
        indexed = _new_row(run, "queued", stamp=stamp, model=model, stage=stage, fault=fault)
    size_bytes = run.events.path.stat().st_size
    reader = EventReader(run.events.path, indexed.offset)
    events = reader.read()
    if reader.restarted:  # not the log that the row was made from
        return _read_row(run, None)
    status = replace(fold(_status(indexed), events), offset=reader.offset)
    if not reader.offset and size_bytes:
        raise OSError(errno.EINVAL, f"no event in {size_bytes} bytes")
    if not status.created and reader.offset:
        raise OSError(errno.EINVAL, "no event can be read")
    status = reconcile(run, status)
    identity = read_identity(run.identity_file) if status.live else None
    return replace(
        indexed,
        state=status.state,
        step=status.step,
        steps=status.steps,
        pid=identity.pid if identity else None,
        created=status.created,
        updated=status.updated,
        request=status.request,
        saved=status.saved,
        decides=status.decides,
        best=status.best,
        saved_best=status.saved_best,
        offset=status.offset,
    )


def _new_row(
    run: Run,
    state: str,
    *,
    stamp: int = 0,
    model: str | None = None,
    stage: str | None = None,
    fault: str | None = None,
) -> RunRow:
    return RunRow(
        id=run.id,
        state=state,
        step=0,
        steps=None,
        pid=None,
        model=model,
        created=0.0,
        updated=0.0,
        folder=str(run.folder),
        fault=fault,
        request=None,
        saved=0,
        stage=stage,
        decides=None,
        best=None,
        saved_best=None,
        offset=0,
        stamp=stamp,
    )


def _status(row: RunRow) -> Status:
    state = row.state if row.state in STATES else "queued"
    return Status(
        cast("State", state),
        row.step,
        row.steps,
        row.created,
        row.updated,
        saved=row.saved,
        request=row.request,
        decides=row.decides,
        best=row.best,
        saved_best=row.saved_best,
    )


def _stamp(run: Run) -> int:
    try:
        return max(0, run.config_file.stat().st_mtime_ns)
    except OSError:
        return 0  # missing: the folder is being deleted, or damaged


def stored_yaml(run: Run) -> tuple[dict[str, object], str | None]:
    """Returns the content of `config.yaml`, unchecked, and the reason if it cannot be read."""
    import yaml

    return _parsed(run, yaml.safe_load)


def _listed_settings(run: Run) -> tuple[dict[str, object], str | None]:
    """Returns the values of `config.yaml` that a list has, in a tenth of the time of all.

    Settings of plain values and lists of them, as most are, need no parser.
    """
    with suppress(OSError):
        content = read_small(run.config_file, most_bytes=MOST_BYTES)
        if _PLAIN_FILE.fullmatch(content):
            settings = dict(_LISTED_LINES.findall(content.decode("ascii")))
            if all(map(_is_text, settings.values())):
                return {key: value.strip("'") for key, value in settings.items()}, None
    return _parsed(run, _top_level)


def _parsed(run: Run, parse: Callable[[bytes], object]) -> tuple[dict[str, object], str | None]:
    import yaml

    try:
        settings = parse(read_small(run.config_file, most_bytes=MOST_BYTES))
    except OSError as error:
        return {}, f"{CONFIG}: {_reason(error)}"
    # PyYAML's constructors leak some of their own errors
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return {}, f"{CONFIG}: broken YAML"
    except RecursionError:
        return {}, f"{CONFIG}: nested too deeply"
    return (cast("dict[str, object]", settings), None) if isinstance(settings, dict) else ({}, None)


def _top_level(content: bytes) -> dict[str, object]:
    """Returns the values of `LISTED` in a mapping, None for what is not text.

    All of the file is parsed, as its faults are listed, but nothing else is built.
    """
    import yaml

    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _listed(content, fast)
    except yaml.YAMLError:  # libyaml refuses escapes of half a surrogate pair, too
        return _listed(content, yaml.SafeLoader)


def _is_text(plain: str) -> bool:
    """Returns whether a plain value is text; a parser decides about what may be a number."""
    return plain[:1] in ("'", "/") or (plain[:1].isalpha() and plain.lower() not in _NO_TEXT)


def _listed(content: bytes, loader: Any) -> dict[str, object]:  # noqa: ANN401 - see `_text_of`
    import yaml

    next_event = loader(content).get_event
    listed: dict[str, object] = {}
    depth, key = 0, None
    while not isinstance(event := next_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            if depth == 1 and key is None:
                key = getattr(event, "value", "")
            elif depth == 1:
                if key in LISTED:
                    listed[key] = _text_of(event)
                key = None
            depth += isinstance(event, yaml.CollectionStartEvent)
            if depth > MOST_DEPTH:  # libyaml takes minutes for a megabyte of brackets
                raise RecursionError
    return listed


def _text_of(event: Any) -> str | None:  # noqa: ANN401 - an event of PyYAML, which has no types
    """Returns the text of a value; None for numbers, true, null, lists and so on."""
    import yaml

    if not isinstance(event, yaml.ScalarEvent):
        return None
    resolver: Any = yaml.SafeLoader("")
    tag = event.tag or resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
    return str(event.value) if tag == "tag:yaml.org,2002:str" else None


def _model(settings: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Returns the base model in the settings, under either of its keys, or why there is none."""
    model = settings.get("model_name_or_path") or settings.get("model")
    if not isinstance(model, str):
        return None, f"{CONFIG}: no model"
    return model.encode("utf-8", "replace").decode(), None


def _stage(settings: Mapping[str, object]) -> str | None:
    stage = settings.get("stage", "sft")
    return stage.encode("utf-8", "replace").decode() if isinstance(stage, str) else None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
