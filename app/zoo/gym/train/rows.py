"""Reads, splits and encodes the rows of a run; the same config gives the same rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import (
    Dataset,
    Encoded,
    EncodeOptions,
    Problem,
    Record,
    Split,
    Tokenizer,
    Unit,
    read_dataset,
)
from zoo.gym.data.lazy import LazyUnits, encode_dataset
from zoo.gym.data.notes import Figures, notes_of, survey
from zoo.gym.data.own_tokenizer import own_tokenizer, states_template, tokenizer_of
from zoo.gym.data.reading.dataset import early_records
from zoo.gym.data.rows import make_encoder, require_template
from zoo.gym.data.tokenizer import has_tokenizer
from zoo.gym.delta.origin.digests import other_form
from zoo.gym.delta.origin.record import ORIGIN_FILE, doubt_of_base, joint_of_result
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object
from zoo.gym.train.answers import Probe, draw_probes
from zoo.gym.train.run_folder.pinned import layout_of, mix_of
from zoo.gym.train.run_folder.split import new_split
from zoo.models.folder import model_positions, vocabulary_size


@dataclass(frozen=True)
class Rows:
    """Encoded training rows and held-out rows, with what was left out and why.

    Attributes:
        train: the rows to learn from; many of them are encoded when they are used.
        held_out: the rows to evaluate on.
        seen: rows to learn from that are encoded, among them the longest; usually all.
        held_out_seen: the same of the held-out rows.
        tokens: tokens of the rows to learn from; estimated if they are many.
        held_out_tokens: tokens of the held-out rows.
        problems: rows that cannot be used.
        truncated: the number of rows truncated at `cutoff_len` tokens.
        unlearned: the number of rows left out because `cutoff_len` cut off all learned tokens.
        notes: what the user should know about the data, as `data inspect` prints it.
        cutoff_len: the setting, or the context length of the model if that is shorter.
        system: the system prompt of at least half of the chats; empty for none.
        joint: what most prompts end with, for a model without a chat template.
        tokenizer: how the continued adapter, or `template`, differs from the base.
        probes: prompts of held-out and learned rows, whose answers a run shows.
    """

    train: Sequence[Unit]
    held_out: Sequence[Unit]
    seen: Sequence[Unit]
    held_out_seen: Sequence[Unit]
    tokens: int
    held_out_tokens: int
    problems: tuple[Problem, ...]
    truncated: int
    unlearned: int
    notes: tuple[str, ...]
    cutoff_len: int
    system: str
    joint: str
    tokenizer: dict[str, Any]
    probes: tuple[Probe, ...]

    @property
    def form(self) -> tuple[str, str, dict[str, Any]]:
        """How the model is asked: system prompt, end of a prompt, and what its tokenizer has."""
        return self.system, self.joint, self.tokenizer


def prepare_rows(
    config: TrainConfig,
    model_folder: Path,
    choose: Callable[[Dataset], Split] | None = None,
) -> Rows:
    """Reads the config's data and encodes it for the model in `model_folder`.

    Args:
        config: the data files and how to read them.
        model_folder: the folder with the tokenizer and the chat template.
        choose: returns the split of the rows; by default that of a new run.

    Raises:
        NotAvailableError: a data file is missing.
        InputError: no row is usable.
    """
    dataset = read_rows(config)
    tokens = own_tokenizer(model_folder, config.first_adapter, config.template)
    tokenizer = tokens.tokenizer
    options = encode_options(config, model_folder)
    split = choose(dataset) if choose else new_split(config, dataset)
    train, held_out = split.apply(dataset.records)
    learned = encode_dataset(train, tokenizer, options)
    held_out_rows = _encode_held_out(held_out, tokenizer, options)
    truncated = learned.truncated + held_out_rows.truncated
    unlearned = learned.dropped_unlearned + held_out_rows.dropped_unlearned
    encoder = make_encoder(tokenizer, options)
    surveyed = survey(dataset.records, encoder)
    lost = learned.lost + held_out_rows.lost
    alike = split.duplicates, split.same_prompt, learned.sampled, split.also_learned, lost
    return Rows(
        train=learned.units,
        held_out=held_out_rows.units,
        seen=learned.seen,
        held_out_seen=held_out_rows.seen,
        tokens=learned.tokens,
        held_out_tokens=held_out_rows.tokens,
        problems=(*dataset.problems, *learned.problems, *held_out_rows.problems),
        truncated=truncated,
        unlearned=unlearned,
        notes=(
            *filter(None, [doubt_of_base(model_folder), _other_form(config, model_folder)]),
            *tokens.notes,
            *dataset.notes,
            *notes_of(surveyed, Figures(truncated, unlearned, *alike)),
        ),
        cutoff_len=options.cutoff_len,
        system=surveyed.common_system,
        joint=surveyed.common_joint,
        tokenizer=tokens.parts,
        probes=(
            *draw_probes(held_out, encoder, held_out=True),
            *draw_probes(train, encoder, held_out=False),
        ),
    )


def read_rows(config: TrainConfig) -> Dataset:
    """Reads the rows of a run: those to learn from, then those of files that are held out.

    Raises:
        NotAvailableError: a data file is missing.
        InputError: no row is usable.
    """
    kinds = load_method(config.stage).reads
    mix, layout, apart = mix_of(config), layout_of(config), len(config.eval_dataset)
    return read_dataset(config.data_files, config.max_samples, kinds, mix, layout, apart)


def check_rows(config: TrainConfig, model_folder: Path, paths: Sequence[Path]) -> None:
    """Refuses before there is a run what the first rows of its data show.

    Args:
        config: the settings as they were given.
        model_folder: the base.
        paths: the data files.

    Raises:
        NotAvailableError: the file of the template does not exist.
        InputError: they are chats, and the base has no chat template; see also `own_tokenizer` and
            `Method.check_records`.
    """
    _check_template(config, model_folder, paths)
    method = load_method(config.stage)
    method.check_records(config, early_records(paths, method.reads, layout_of(config)))


def _check_template(config: TrainConfig, model_folder: Path, paths: Sequence[Path]) -> None:
    places = filter(None, (model_folder, config.first_adapter))
    if config.template is None and any(map(states_template, places)):
        return  # without the import of transformers, which takes longer than the command
    if not has_tokenizer(model_folder):
        return  # the run says so
    tokenizer = tokenizer_of(model_folder, config.first_adapter, config.template)
    if tokenizer.chat_template:
        return
    encoder = make_encoder(tokenizer, EncodeOptions(config.cutoff_len))
    kinds, layout = load_method(config.stage).reads, layout_of(config)
    for record in early_records(paths, kinds, layout):
        for row in record.sides or (record,):
            require_template(encoder, row)


def report_unusable(rows: Rows, report: Callable[[Problem], object]) -> None:
    """Has rows reported that turn out to be unusable only when they are encoded."""
    for units in (rows.train, rows.held_out):
        if isinstance(units, LazyUnits):
            units.report = report


def _other_form(config: TrainConfig, base: Path) -> str | None:
    """Returns how the base reads text differently from that of the continued adapter."""
    if (adapter := config.first_adapter) is None:
        return None
    has_template = config.template is not None or states_template(adapter)
    record = read_json_object(adapter / ORIGIN_FILE) or {}
    return other_form(record, base, has_template=has_template)


def _encode_held_out(
    records: Sequence[Record], tokenizer: Tokenizer, options: EncodeOptions
) -> Encoded:
    """Encodes held-out rows; if all are too long, the run continues without evaluation."""
    if not records:
        return Encoded((), (), 0, 0)
    try:
        return encode_dataset(records, tokenizer, options)
    except InputError as error:
        reason = f"the held-out rows cannot be evaluated: {error.message}"
        return Encoded((), (Problem(records[0].source, reason),), 0, 0)


def readable_tokens(config: TrainConfig, model_folder: Path) -> int | None:
    """Returns the longest input of the model, with scaled positions if they are; None if unknown.

    Raises:
        InputError: they need no scaling.
    """
    positions = model_positions(model_folder)
    if config.rope_scaling is None or positions is None:
        return positions
    if config.cutoff_len <= positions:
        raise InputError(
            f"rope_scaling: expected a cutoff_len above the {positions:,} tokens that the model "
            f"reads without it, got {config.cutoff_len:,}",
            hint="leave rope_scaling out",
            code="train.rope_without_length",
        )
    return positions * -(-config.cutoff_len // positions)


def encode_options(config: TrainConfig, model_folder: Path) -> EncodeOptions:
    """Returns how rows are encoded: no row is longer than the context of the model."""
    positions, method = readable_tokens(config, model_folder), load_method(config.stage)
    limit = positions - method.added_tokens if positions else config.cutoff_len
    cutoff = min(config.cutoff_len, limit)
    assert config.date is not None
    return EncodeOptions(
        cutoff,
        config.think,
        config.date,
        config.split_special_tokens,
        vocabulary_size(model_folder),
        method.answer_tokens(config, cutoff),
        joint_of_result(config.first_adapter or model_folder),
        config.append_eos,
    )
