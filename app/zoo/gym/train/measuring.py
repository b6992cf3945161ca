"""The rows that a finished run is measured on: none of the rows that it was trained on.

The run's own held-out rows are used only if its data files are unchanged, byte for byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import (
    Dataset,
    Example,
    Record,
    Split,
    Unit,
    fingerprint,
    read_dataset,
    split_at_end,
)
from zoo.gym.data.equality import related_rows
from zoo.gym.data.lazy import SAMPLED_ROWS, LazyUnits, encode_dataset
from zoo.gym.data.own_tokenizer import tokenizer_of, with_own
from zoo.gym.data.record_file import StoredRecords
from zoo.gym.data.rows import with_answer
from zoo.gym.data.units import RATING
from zoo.gym.errors import InputError
from zoo.gym.measure.rows import spread
from zoo.gym.train.rows import encode_options, prepare_rows, read_rows
from zoo.gym.train.run_folder.pinned import layout_of, with_own_rows
from zoo.gym.train.run_folder.split import stored_split
from zoo.models.folder import read_object


@dataclass(frozen=True)
class Measuring:
    """Rows to measure on, with notes for the user.

    Attributes:
        examples: the rows.
        notes: what the user should know about the rows, a sentence each.
        held_out: True if none of the rows was learned, None if that is not known.
    """

    examples: Sequence[Example] = ()
    notes: tuple[str, ...] = ()
    held_out: bool | None = None


def stored_fingerprint(folder: Path) -> str | None:
    """Returns the fingerprint of the data that a run was trained on, None if it stored none."""
    env = read_object(folder / "env.json") if (folder / "env.json").is_file() else {}
    if isinstance(env.get("data"), str):
        return str(env["data"])
    split = stored_split(folder)
    return split[0] if split else None


def rows_of_run(folder: Path, config: TrainConfig, model_folder: Path) -> Measuring:
    """Returns the rows that a run held out, or a note on why they are no longer available.

    Args:
        folder: the run folder.
        config: the run's settings.
        model_folder: the base, whose tokenizer is used.
    """
    config = with_own_rows(config, folder)
    if reason := changed_data(folder, config):
        return Measuring(notes=(reason,))
    config = _as_asked(config, folder)
    rows = prepare_rows(config, model_folder, lambda dataset: _split(folder, config, dataset))
    lazy = isinstance(rows.held_out, LazyUnits)
    note = f"{SAMPLED_ROWS:,} of the {len(rows.held_out):,} held-out rows are used"
    examples = _answered(_better(rows.held_out), config, model_folder)
    if rows.held_out and not examples:
        return Measuring(notes=("the run's rows have no answers to measure on",))
    return Measuring(examples, (note,) if lazy else (), held_out=True)


def held_out_records(folder: Path, config: TrainConfig) -> tuple[Record, ...] | str:
    """Returns the records that a run held out, or why they are no longer known.

    Args:
        folder: the run folder.
        config: the run's settings.
    """
    config = with_own_rows(config, folder)
    if reason := changed_data(folder, config):
        return reason
    dataset = read_rows(config)
    return tuple(_split(folder, config, dataset).apply(dataset.records)[1])


def _as_asked(config: TrainConfig, folder: Path) -> TrainConfig:
    """Returns the settings with a run's result as the fine-tune whose tokenizer is used."""
    result = folder / "result"
    tuned = {"adapter_name_or_path": str(result), "template": None}
    return config.model_copy(update=tuned if result.is_dir() else {})


def rows_of_files(
    files: Sequence[Path],
    config: TrainConfig,
    model_folder: Path,
    folder: Path | None,
    own_parts: Mapping[str, object] | None = None,
) -> Measuring:
    """Returns the rows of files, without those that a run was trained on.

    A row counts as learned if the split would put it on the same side as a learned one, whatever
    its format, or if it is encoded to the same tokens, as parts of a text may be.

    Args:
        files: the held-out examples that the user gives.
        config: how rows are encoded: a run's settings, or a new run's.
        model_folder: the base, whose tokenizer is used.
        folder: the run folder, None if there is no run.
        own_parts: how a delta's tokenizer differs from the base's.

    Raises:
        InputError: the run was trained on every row.
    """
    if folder is not None and fingerprint(files) == stored_fingerprint(folder):
        count, names = len(config.dataset), tuple(map(str, files))
        update = {"dataset": names[:count], "eval_dataset": names[count:]}
        here = config.model_copy(update=update)
        used = rows_of_run(folder, here, model_folder)
        note = "these files are the run's own data: only its held-out rows are measured"
        return Measuring(used.examples, (note, *used.notes), used.held_out)
    kinds, layout = load_method(config.stage).reads, layout_of(config)
    records = read_dataset(files, kinds=kinds, layout=layout).records
    learned = _learned(folder, config) if folder is not None else None
    config = config if folder is None else _as_asked(config, folder)
    if learned is None:
        unknown = "it is no longer known whether the run was trained on some of these rows"
        encoded = _encode(records, config, model_folder, own_parts)
        return Measuring(encoded, (unknown,) if folder is not None else ())
    fresh = _unrelated(records, learned)
    examples = _encode(fresh, config, model_folder) if fresh else ()
    # parts of a text may be encoded to the same tokens; stored rows contain no text
    parts = fresh and not isinstance(learned, StoredRecords)
    tokens = {_tokens(row) for row in _encode(learned, config, model_folder)} if parts else set()
    unseen = tuple(row for row in examples if _tokens(row) not in tokens)
    if not unseen:
        raise InputError(
            "--data: expected rows that the run was not trained on, got none",
            code="train.no_unseen_rows",
        )
    left = len(records) - len(fresh) + len(examples) - len(unseen)
    total = max(len(records), left + len(unseen))  # a text is many rows
    note = f"{left} of {total} rows left out: the run was trained on them"
    return Measuring(unseen, (note,) if left else (), held_out=True)


def _encode(
    records: Sequence[Record],
    config: TrainConfig,
    model_folder: Path,
    own_parts: Mapping[str, object] | None = None,
) -> tuple[Example, ...]:
    tokenizer = tokenizer_of(model_folder, config.first_adapter, config.template)
    tokenizer = with_own(tokenizer, own_parts or {})
    encoded = encode_dataset(records, tokenizer, encode_options(config, model_folder))
    return _answered(_better(encoded.units), config, model_folder)


def _answered(
    examples: tuple[Example, ...], config: TrainConfig, model_folder: Path
) -> tuple[Example, ...]:
    """Returns prompts with the answers of their rows; one without an answer is left out."""
    prompts = [row.record for row in examples if row.record is not None]
    if not prompts:
        return examples
    answered = [record for record in map(with_answer, prompts) if record is not None]
    return _encode(answered, config, model_folder) if answered else ()


def _better(units: Sequence[Unit]) -> tuple[Example, ...]:
    """Returns what a model should answer: the better answer of a pair and no bad one.

    Of many rows it is a sample.
    """
    if isinstance(units, LazyUnits):
        units = spread(units, SAMPLED_ROWS)
    firsts = (unit.rows[0] for unit in units)
    return tuple(row for row in firsts if row.extras.get(RATING, 1) > 0)


def _tokens(row: Example) -> tuple[bytes, bytes]:
    """Returns what a model learns of a row: its token ids and which of them count."""
    return row.ids.tobytes(), row.mask.tobytes()


def changed_data(folder: Path, config: TrainConfig) -> str | None:
    """Returns why a run's own data cannot be used, or None if it is unchanged."""
    files = config.data_files
    if not all(file.exists() for file in files):
        return "the run's data was moved or deleted"
    stored = stored_fingerprint(folder)
    if stored is None:
        return "the run stored no fingerprint of its data, so its held-out rows are not known"
    if fingerprint(files) != stored:
        return (
            "the run's data has changed since the training: its held-out rows are no longer known"
        )
    return None


def _split(folder: Path, config: TrainConfig, dataset: Dataset) -> Split:
    split = stored_split(folder)
    return split_at_end(dataset.records, config.val_size) if split is None else split[1]


def _learned(folder: Path, config: TrainConfig) -> Sequence[Record] | None:
    """Returns the rows that a run was trained on, None if its data is not available unchanged."""
    config = with_own_rows(config, folder)
    if changed_data(folder, config):
        return None
    dataset = read_rows(config)
    return _split(folder, config, dataset).apply(dataset.records)[0]


def _unrelated(records: Sequence[Record], learned: Sequence[Record]) -> list[Record]:
    """Returns the rows that neither duplicate nor continue a learned one."""
    related = related_rows(chain(learned, records)).group
    learned_ids = set(related[: len(learned)].tolist())
    return [
        record
        for record, group in zip(records, related[len(learned) :].tolist(), strict=True)
        if group not in learned_ids
    ]
