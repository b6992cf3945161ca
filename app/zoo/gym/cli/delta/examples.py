"""The rows that a delta is measured on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.cli.output import Output
from zoo.gym.config import TrainConfig
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError
from zoo.gym.humanize import today

if TYPE_CHECKING:
    from zoo.gym.delta import QualityInput
    from zoo.gym.train.measuring import Measuring
    from zoo.gym.tuned.source import Source


def held_out_examples(
    source: "Source", data: Sequence[str], folder: Path, screen: Output
) -> "Measuring":
    """Returns the rows to measure on: those of the files, otherwise the run's held-out ones."""
    from zoo.gym.data import fingerprint
    from zoo.gym.data.reading.files import files_in
    from zoo.gym.delta.origin.record import doubt_of_base
    from zoo.gym.train.measuring import Measuring, rows_of_files, rows_of_run
    from zoo.gym.tuned.record import Record

    files = files_in([existing(path) for path in data])
    measuring = Measuring()
    if files:
        names = tuple(map(str, files))
        settings: dict[str, Any] = {"model_name_or_path": str(folder), "dataset": names}
        if source.path.is_dir():
            settings["adapter_name_or_path"] = str(source.path)  # whose tokenizer is used
        new = TrainConfig(**settings, date=today())
        run = source.run.folder if source.run else None
        record = Record(source)
        measuring = rows_of_files(files, source.config or new, folder, run, record.tokenizer)
        if run is None and record.data == fingerprint(files):
            measuring = replace(measuring, held_out=False)
    elif source.run and source.config:
        measuring = rows_of_run(source.run.folder, source.config, folder)
    doubt = doubt_of_base(folder) if measuring.held_out else None
    for note in filter(None, (*measuring.notes, doubt)):
        screen.say(note)
    return replace(measuring, held_out=None) if doubt else measuring


def quality_of(measuring: "Measuring", control: str | None) -> "QualityInput | None":
    """Returns what to measure on; None without rows.

    Raises:
        InputError: a control without rows to measure it on.
    """
    from zoo.gym.delta import QualityInput

    other = None if control is None else existing(control, "a delta file")
    if not measuring.examples:
        if other is not None:
            raise InputError(
                "--control: expected held-out rows to measure it on, got none",
                hint="give some with --data",
                code="cli.no_examples",
            )
        return None
    return QualityInput(measuring.examples, held_out=measuring.held_out, other=other)


def sampled(measuring: "Measuring", folder: Path, rows: int | None, screen: Output) -> "Measuring":
    """Returns the rows to measure on, and reports if they are a sample."""
    from zoo.gym.delta.quality import sampled_rows
    from zoo.models.folder import count_parameters

    check_rows(rows, measuring.examples)
    chosen = sampled_rows(measuring.examples, count_parameters(folder), rows)
    if len(chosen) < len(measuring.examples):
        kind = "held-out rows" if measuring.held_out else "rows"
        screen.say(f"measuring on {len(chosen)} of {len(measuring.examples)} {kind} (--rows)")
    return replace(measuring, examples=chosen)


def check_rows(rows: int | None, measured_on: Sequence[object]) -> None:
    """Refuses a number of rows below one, or without rows to count."""
    if rows is not None and rows < 1:
        raise InputError(f"--rows: expected at least 1, got {rows}", code="cli.bad_value")
    if rows is not None and not measured_on:
        raise InputError(
            f"--rows: expected examples to measure {rows} of, got none",
            hint="give some with --data",
            code="cli.no_examples",
        )
