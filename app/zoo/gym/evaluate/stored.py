"""Stored figures: a file of JSON beside the answers, and what `runs show` reads of them.

They are in the folder `evals` of the run that trained the source, else in that of the program's
data.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.gym.files import read_json_object, write_beside
from zoo.gym.jobs import Run
from zoo.gym.paths import folders

if TYPE_CHECKING:
    from zoo.gym.evaluate.results import Result

FOLDER = "evals"

_COMPARED = "compared_with"


def folder_of(run: Run | None) -> Path:
    """Returns the folder of answers and results."""
    return (folders().data if run is None else run.folder) / FOLDER


def store(result: "Result", answers: Path, first: "Result | None" = None) -> None:
    """Writes a result beside its answers, in place of an earlier one of the same answers.

    Args:
        result: what was measured.
        answers: the file of the answers.
        first: the result that it is compared with; None keeps an earlier comparison.

    Raises:
        StorageError: it cannot be written.
    """
    path = answers.with_suffix(".json")
    stored = result.as_json() | {"answers": answers.name}
    if first is not None:
        from zoo.gym.evaluate.results import compare

        figure = {key: first.as_json()[key] for key in ("source", "value", "interval", "unit")}
        difference = compare(first, result).as_json()
        stored |= {_COMPARED: figure | {key: difference[key] for key in ("difference", "sentence")}}
    elif earlier := (read_json_object(path) or {}).get(_COMPARED):
        stored |= {_COMPARED: earlier}
    text = json.dumps(stored, ensure_ascii=False, indent=1)
    write_beside(path, f"{text}\n", sync=True)


def stored_results(run: Run) -> Iterator[dict[str, object]]:
    """Yields what was measured of a run, by task; damaged files are left out."""
    for path in sorted(folder_of(run).glob("*.json")):
        stored = None if path.name.endswith(".settings.json") else read_json_object(path)
        if stored is not None and isinstance(stored.get("value"), float) and "title" in stored:
            yield stored


def measured_answers(folder: Path) -> Iterator[Path]:
    """Yields the answers in a folder whose figures are stored; without them they are asked again.

    Answers that are not complete, or that a process is writing, are left out.
    """
    for path in sorted(folder.glob("*.jsonl")):
        is_free = not path.with_name(f".{path.name}.lock").exists()
        if is_free and "value" in (read_json_object(path.with_suffix(".json")) or {}):
            yield path


def lines_of(stored: Mapping[str, object]) -> Iterator[str]:
    """Yields a stored figure in words, and what it was compared with."""
    yield f"{stored['title']}: {figure_of(stored)}, {stored.get('rows')} rows"
    compared = stored.get(_COMPARED)
    if isinstance(compared, dict):
        other = cast("dict[str, object]", compared)
        yield f"  {other['source']}: {figure_of(other)}; against it {other['sentence']}"


def figure_of(stored: Mapping[str, object]) -> str:
    """Returns a stored figure with its interval in words: `61.0 % (95 % 46.2 to 74.1)`."""
    is_share = stored.get("unit") == "share"
    scale, unit, digits = (100.0, " %", 1) if is_share else (1.0, "", 4)
    value = cast("float", stored["value"]) * scale
    ends = stored.get("interval")
    if not isinstance(ends, list):
        return f"{value:.{digits}f}{unit}"
    low, high = (end * scale for end in cast("list[float]", ends))
    return f"{value:.{digits}f}{unit} (95 % {low:.{digits}f} to {high:.{digits}f})"
