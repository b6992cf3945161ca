"""Imports a GGUF file: checks it, and writes a model folder that appears only when it is whole."""

import json
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.core.errors import InputError
from zoo.models.gguf.architecture import EMBEDDING, check_settings, read_settings
from zoo.models.gguf.card import widening, write_card
from zoo.models.gguf.imported import (
    MOST_NAME_CHARACTERS,
    Record,
    find_imported,
    find_source,
    imported_folder,
    is_plain_name,
    partial_folder,
    plain_name,
    publish,
    read_record,
    refuse_changed_folder,
    write_record,
)
from zoo.models.gguf.layout import Layout, read_layout
from zoo.models.gguf.parts import Source, open_gguf
from zoo.models.gguf.vocabulary import check_vocabulary, end_tokens, write_vocabulary
from zoo.models.gguf.weights import TORCH_NAMES, Plan, plan_weights, write_weights
from zoo.models.hub import check_disk
from zoo.models.names import is_known_name
from zoo.models.registry import registry


@dataclass(frozen=True)
class Imported:
    """An imported model.

    Attributes:
        name: its name.
        folder: its folder.
        is_new: False if the same file had been imported before.
        notices: what the user should know about it.
    """

    name: str
    folder: Path
    is_new: bool
    notices: tuple[str, ...] = ()


def import_gguf(path: Path, name: str | None = None) -> Imported:
    """Imports a GGUF file as a model, unless the same file was imported before.

    Args:
        path: the file, or any part of a split one.
        name: the model's name; by default from the file's `general.name` or its file name.

    Raises:
        InputError: the file or the name cannot be used, or the name is taken.
        NotAvailableError: a file is missing.
        DoesNotFitError: the disk is too small.
        StorageError: the file cannot be read, or the folder not be written.
    """
    source = open_gguf(path)
    with partial_folder() as partial:
        return import_source(source, name, partial)


def import_source(source: Source, name: str | None, partial: Path) -> Imported:
    """Imports an open file by way of an empty hidden folder; see `import_gguf`."""
    if name is not None:
        _check_name(name)
    sha256 = source.sha256()
    chosen = name or _default_name(source)
    earlier = find_source(sha256, name)
    if earlier is not None:
        refuse_changed_folder(earlier)
        return Imported(earlier, imported_folder() / earlier, is_new=False)
    _refuse_taken(source, chosen, sha256)
    record = Record(
        source.path.name, sha256, source.type_counts(), tuple(part.stamp for part in source.parts)
    )
    with quiet_library():
        notices = _write(source, record, partial)
    source.refuse_changed()
    return Imported(chosen, publish(partial, chosen), is_new=True, notices=notices)


def write_values(source: Source, folder: Path) -> None:
    """Writes a file's values in float32, with config and tokenizer, as a folder to load once.

    Raises:
        InputError: the file cannot be used.
        OSError: the folder cannot be written.
    """
    with quiet_library():
        check_settings(source)
        check_vocabulary(source, source.tensors[EMBEDDING][1].shape[0])
        config = read_settings(source, folder)
        layout = read_layout(source, config)
        plan = plan_weights(source, layout, "F32")
        write_vocabulary(source, folder, getattr(config, "max_position_embeddings", None))
        _write_config(config, layout, plan, folder)
        write_weights(source, layout, plan, folder)


@contextmanager
def quiet_library() -> Generator[None]:
    """Silences transformers' log: what a user must know of a file is refused, or in our notices."""
    from transformers.utils import logging

    verbosity: int = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _write(source: Source, record: Record, folder: Path) -> tuple[str, ...]:
    """Writes all files of a model, and returns what to tell the user."""
    check_settings(source)
    check_vocabulary(source, source.tensors[EMBEDDING][1].shape[0])
    config = read_settings(source, folder)
    layout = read_layout(source, config)
    plan = plan_weights(source, layout)
    check_disk(folder, plan.size_bytes, "free some space, or set ZOO_GYM_HOME to a larger disk")
    has_template = write_vocabulary(
        source, folder, getattr(config, "max_position_embeddings", None)
    )
    _write_config(config, layout, plan, folder)
    _write_json(folder / "generation_config.json", generation_settings(source))
    card = write_card(source, record.sha256, plan.dtype, has_template=has_template)
    (folder / "README.md").write_text(card, encoding="utf-8")
    write_weights(source, layout, plan, folder)
    write_record(folder, record)
    notices = [widening(source, plan.dtype)]
    if not has_template:
        notices.append("no chat template in the file: chats need one, completions do not")
    return tuple(notices)


def _write_config(config: Any, layout: Layout, plan: Plan, folder: Path) -> None:  # noqa: ANN401
    config.architectures = [layout.class_name]
    config.dtype = TORCH_NAMES[plan.dtype]
    content = json.loads(config.to_json_string(use_diff=True))
    content.pop("_name_or_path", None)
    _write_json(folder / "config.json", content)


def generation_settings(source: Source) -> dict[str, Any]:
    """Returns what generation_config.json has: the tokens that end an answer, BOS and padding."""
    ends = end_tokens(source)
    content: dict[str, Any] = {"eos_token_id": ends if len(ends) > 1 else ends[0]} if ends else {}
    for key, name in (("bos_token_id", "bos"), ("pad_token_id", "padding")):
        if (token := source.metadata.integer(f"tokenizer.ggml.{name}_token_id")) is not None:
            content[key] = token
    return content


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(f"{json.dumps(content, indent=2, sort_keys=True)}\n", encoding="utf-8")


def _default_name(source: Source) -> str:
    for text in (source.metadata.text("general.name") or "", source.path.stem):
        name = plain_name(text)
        if name and not is_known_name(name):
            return name
    raise InputError(
        f"'{source.path}': expected a name for the model, got none that can be used",
        hint=_command(source),
        code="models.bad_name",
    )


def _check_name(name: str) -> None:
    if not is_plain_name(name):
        raise InputError(
            f"--name: expected at most {MOST_NAME_CHARACTERS} of a-z, 0-9, '.', '_' and '-' after "
            f"a letter or digit, without '.gguf' at the end, got {name!r}",
            hint=f"--name {plain_name(name)}" if plain_name(name) else None,
            code="models.bad_name",
        )


def _command(source: Source) -> str:
    """Returns the command that imports a file under another name."""
    return f"zoo-gym models import {shlex.quote(str(source.path))} --name NAME"


def _refuse_taken(source: Source, name: str, sha256: str) -> None:
    """Refuses a name that means other bytes: of a listed model, or of another file."""
    listed = next((entry for entry in registry() if entry.alias == name), None)
    pinned = listed.package.sha256 if listed and listed.package else None
    if is_known_name(name) and pinned != sha256:
        raise InputError(
            f"--name: '{name}' is the name of a listed model: expected another name",
            hint=_command(source),
            code="models.name_taken",
        )
    folder = imported_folder() / name
    if not folder.exists():
        return
    record = read_record(folder) if find_imported(name) else None
    what = f"the model of '{record.file}'" if record else "a folder that is no imported model"
    raise InputError(
        f"the name '{name}' is taken: expected a new one, got that of {what}",
        hint=f"{_command(source)}, or remove {folder}",
        code="models.name_taken",
    )
