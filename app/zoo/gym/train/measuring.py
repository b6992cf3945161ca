"""The rows that a finished run is measured on: none of them may be one that it has learned.

A run's own held-out rows are used only while its data is byte for byte what it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import (
    Example,
    Record,
    Split,
    Unit,
    encode_records,
    fingerprint,
    load_tokenizer,
    read_dataset,
    split_at_end,
)
from zoo.gym.data.equality import related_rows
from zoo.gym.errors import InputError
from zoo.gym.train.rows import encode_options, prepare_rows
from zoo.gym.train.run_folder.split import stored_split
from zoo.models.folder import read_object


@dataclass(frozen=True)
class Measuring:
    """Rows to measure on, and a sentence for each thing that a user should know of them.

    Attributes:
        examples: the rows.
        notes: the sentences.
        held_out: True where none of the rows was learned, None where that is not known.
    """

    examples: Sequence[Example] = ()
    notes: tuple[str, ...] = ()
    held_out: bool | None = None


def stored_fingerprint(folder: Path) -> str | None:
    """Returns the fingerprint of the data that a run was trained on, None where it stored none."""
    env = read_object(folder / "env.json") if (folder / "env.json").is_file() else {}
    if isinstance(env.get("data"), str):
        return str(env["data"])
    found = stored_split(folder)
    return found[0] if found else None


def rows_of_run(folder: Path, config: TrainConfig, model_folder: Path) -> Measuring:
    """Returns the rows that a run held out, or why they cannot be had any more.

    Args:
        folder: the run folder.
        config: the run's settings.
        model_folder: the base, whose tokenizer is used.
    """
    if reason := _why_not(folder, config):
        return Measuring(notes=(reason,))
    rows = prepare_rows(config, model_folder, lambda records: _split(folder, config, records))
    return Measuring(_better(rows.held_out), held_out=True)


def rows_of_files(
    files: Sequence[Path], config: TrainConfig, model_folder: Path, folder: Path | None
) -> Measuring:
    """Returns the rows of files, without those that a run has learned.

    A row counts as learned if the split would keep it beside a learned one, in whatever format it
    is written, or if it becomes the same tokens, as parts of a text may.

    Args:
        files: what the user names as held-out examples.
        config: how rows become tokens: a run's settings, or a new run's.
        model_folder: the base, whose tokenizer is used.
        folder: the run folder, None where there is no run.

    Raises:
        InputError: the run has learned every row.
    """
    if folder is not None and fingerprint(files) == stored_fingerprint(folder):
        here = config.model_copy(update={"dataset": tuple(map(str, files))})
        used = rows_of_run(folder, here, model_folder)
        note = "these files are the run's own data: only the rows that it held out are measured"
        return Measuring(used.examples, (note, *used.notes), used.held_out)
    records = read_dataset(files, kinds=load_method(config.stage).reads).records
    learned = _learned(folder, config) if folder is not None else None
    if learned is None:
        lost = "whether the run has learned some of these rows cannot be told any more"
        encoded = _encode(records, config, model_folder)
        return Measuring(encoded, (lost,) if folder is not None else ())
    fresh = _unrelated(records, learned)
    examples = _encode(fresh, config, model_folder) if fresh else ()
    tokens = {_tokens(row) for row in _encode(learned, config, model_folder)} if fresh else set()
    kept = tuple(row for row in examples if _tokens(row) not in tokens)
    if not kept:
        raise InputError(
            "--data: expected rows that the run has not seen, got only rows that it has learned"
        )
    left = len(records) - len(fresh) + len(examples) - len(kept)
    whole = max(len(records), left + len(kept))  # a text is many rows
    note = f"{left} of {whole} rows left out: the run has learned them"
    return Measuring(kept, (note,) if left else (), held_out=True)


def _encode(
    records: Sequence[Record], config: TrainConfig, model_folder: Path
) -> tuple[Example, ...]:
    options = encode_options(config, model_folder)
    return _better(encode_records(records, load_tokenizer(model_folder), options).units)


def _better(units: Sequence[Unit]) -> tuple[Example, ...]:
    """Returns what a model should say: of a pair the better answer."""
    return tuple(unit.rows[0] for unit in units)


def _tokens(row: Example) -> tuple[bytes, bytes]:
    """Returns what a model learns of a row: its token ids and which of them count."""
    return row.ids.tobytes(), row.mask.tobytes()


def _why_not(folder: Path, config: TrainConfig) -> str | None:
    """Says why a run's own data cannot be used, or None where it is what it was."""
    files = [Path(name) for name in config.dataset]
    if not all(file.exists() for file in files):
        return "the run's data is no longer where it was"
    stored = stored_fingerprint(folder)
    if stored is None:
        return "the run has stored no fingerprint of its data, so what it held out is not known"
    if fingerprint(files) != stored:
        return (
            "the run's data was changed since it was trained: the rows that it held out are not "
            "known any more"
        )
    return None


def _split(folder: Path, config: TrainConfig, records: Sequence[Record]) -> Split:
    found = stored_split(folder)
    return split_at_end(records, config.val_size) if found is None else found[1]


def _learned(folder: Path, config: TrainConfig) -> tuple[Record, ...] | None:
    """Returns the rows that a run has learned, None where its data is not what it was."""
    if _why_not(folder, config):
        return None
    names, kinds = [Path(name) for name in config.dataset], load_method(config.stage).reads
    records = read_dataset(names, config.max_samples, kinds).records
    return tuple(_split(folder, config, records).apply(records)[0])


def _unrelated(records: Sequence[Record], learned: Sequence[Record]) -> list[Record]:
    """Returns the rows that neither say the same as a learned one nor go on from it."""
    together = (*learned, *records)
    groups = [group for group in related_rows(together) if group[0] >= len(learned)]
    return [together[place] for place in sorted(place for group in groups for place in group)]
