"""`zoo-gym data show` and `data fix`: the rows of one file, and a copy without the bad ones."""

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.data import config_for
from zoo.gym.cli.options import Json, Model, Offline, Template, Yes, output_path
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_model, template_of
from zoo.gym.config.items import existing
from zoo.gym.config.stages import METHODS, load_method
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted, today
from zoo.models import PICO

if TYPE_CHECKING:
    from zoo.gym.data.records import Problem
    from zoo.gym.data.repair import Repaired
    from zoo.gym.data.shown import ShownRow

File = Annotated[str, Parameter(name="FILE")]
Cutoff = Annotated[int, Parameter(name="--cutoff_len")]

_LISTED = 10


def show(
    file: File,
    /,
    *,
    first: int = 1,
    count: int = 5,
    find: str = "",
    model: Model = PICO,
    columns: str | None = None,
    me: str | None = None,
    cutoff_len: Cutoff = 2048,
    template: Template = None,
    think: Literal["template", "keep", "drop"] = "template",
    stage: str | None = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Shows rows of a file as a model reads them, with the learned tokens marked.

    Args:
        file: a file of examples
        first: the number of the first row to show, from 1; blank lines do not count
        count: the most rows to show
        find: only rows with this text
        model: the model whose tokenizer and chat template to use
        columns: the columns by role, such as prompt:Question,response:Answer
        me: the speaker whose messages are learned, in exports of WhatsApp
        cutoff_len: the longest row, in tokens; the rest is cut off
        template: a chat template to use instead of the model's own, by name or a file
        think: thinking in answers: as the chat template does, all kept, dropped
        stage: the method; by default the first that can learn from most of these rows
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.data.report import marked
    from zoo.gym.data.shown import show_rows
    from zoo.gym.train.rows import encode_options
    from zoo.gym.train.run_folder.pinned import layout_of

    for key, value in (("first", first), ("count", count)):
        if value < 1:
            raise InputError(f"--{key}: expected at least 1, got {value}", code="cli.bad_value")
    path, out = existing(file), Output(as_json)
    name = PICO if model is None else model
    flags: dict[str, object] = {"model_name_or_path": name, "dataset": [file], "date": today()}
    flags |= {"cutoff_len": cutoff_len, "think": think, "columns": columns, "me": me}
    flags["template"] = template_of(template, out)
    folder = resolve_model(name, yes=yes, offline=offline).folder
    rows: list[ShownRow] = []
    for each in [stage] if stage else METHODS:
        config = config_for(flags, each)
        read = show_rows(
            path,
            folder,
            encode_options(config, folder),
            load_method(each).reads,
            layout_of(config),
            config.template,
            first=first,
            count=count,
            find=find,
        )
        if not rows or _unusable(read) < _unusable(rows):
            rows = read
        if not _unusable(rows):
            break
    for row in rows:
        out.styled(marked(row, colour=out.colour))
    if not rows:
        out.say("no such row")
    out.result({"rows": [asdict(row) for row in rows]})
    return 0


def fix(
    file: File,
    /,
    *,
    out: Annotated[str | None, Parameter(name="--out")] = None,
    columns: str | None = None,
    me: str | None = None,
    stage: str | None = None,
    as_json: Json = False,
) -> int:
    """Writes a copy of a file without rows that cannot be used and without repeated rows.

    The file itself is not changed, and nothing is overwritten. Rows that only a model's chat
    template refuses stay.

    Args:
        file: rows of json, jsonl, csv or tsv
        out: the copy; by default NAME.fixed.jsonl beside the file
        columns: the columns by role, such as prompt:Question,response:Answer
        me: the speaker whose messages are learned, in exports of WhatsApp
        stage: the method that is to learn from the rows; by default any
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.data.reading.dataset_info import description_of
    from zoo.gym.data.repair import copy_name, repair
    from zoo.gym.files.atomic import check_new_file
    from zoo.gym.train.run_folder.pinned import layout_of

    path, screen = existing(file), Output(as_json)
    target = output_path(out, str(copy_name(path)))
    check_new_file(target)
    if target.exists():
        raise InputError(
            f"output {str(target)!r}: expected a new file, got one that exists",
            hint="choose another name with --out",
            code="cli.output_exists",
        )
    flags: dict[str, object] = {"model_name_or_path": PICO, "dataset": [file]}
    config = config_for(flags | {"columns": columns, "me": me}, stage)
    layout = layout_of(config)
    if target.suffix != copy_name(path).suffix:
        raise InputError(
            f"--out {target}: expected the ending {copy_name(path).suffix}, got {target.suffix}",
            code="cli.bad_value",
        )
    if columns is None and description_of(path, layout) is not None:
        raise InputError(
            f"{path}: expected a file that describes itself, got one that dataset_info.json "
            "describes: a copy would be read otherwise",
            hint="name its columns with --columns",
            code="cli.described_elsewhere",
        )
    kinds = {load_method(each).reads: None for each in ([stage] if stage else METHODS)}
    repaired = repair(path, target, list(kinds), layout)
    changed = bool(repaired.bad or repaired.duplicates)
    _report(screen, repaired, path, target if changed else None)
    figures = asdict(repaired) | {"file": str(target) if changed else None}
    screen.result(figures)
    return 0


def _unusable(rows: "list[ShownRow]") -> int:
    return sum(bool(row.problem) for row in rows)


def _report(screen: Output, repaired: "Repaired", path: Path, target: Path | None) -> None:
    if target is None:
        rows = counted(repaired.kept, "row")
        screen.answer(f"{path}: nothing to leave out of {rows}; no copy was written")
        return
    screen.answer(f"{target}: {counted(repaired.kept, 'row')}")
    screen.answer(f"left out: {repaired.bad:,} bad, {repaired.duplicates:,} repeated")
    _list(screen, repaired.problems, repaired.bad)
    repeats = [f"{each.where}: repeats {each.of}" for each in repaired.repeats]
    _list(screen, repeats, repaired.duplicates)
    screen.say(f"next: zoo-gym data inspect {shlex.quote(str(target))}")


def _list(screen: Output, lines: "Iterable[Problem | str]", count: int) -> None:
    for line in list(lines)[:_LISTED]:
        screen.answer(f"  {line}")
    if count > _LISTED:
        screen.answer(f"  and {count - _LISTED:,} more")
