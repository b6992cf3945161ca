"""Finds what is merged and makes each a model folder: fine-tunes of one base, of equal shapes.

Refused are: a source twice, also as a copy; other bases, tokenizers, tensors or settings that
decide what a model computes from its weights.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY, own_parts, write_own
from zoo.gym.delta.apply import copied_files
from zoo.gym.delta.file.writer import Entry, write_safetensors
from zoo.gym.delta.origin.digests import FORM_PARTS, form_digests, weights_digest
from zoo.gym.delta.origin.record import keep_joint
from zoo.gym.delta.reading.weights import FLOATS, float_config, is_tied, open_weights, own_tensors
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import storage_errors
from zoo.gym.tuned.base import resolve_base
from zoo.gym.tuned.opened import Tuned, open_tuned
from zoo.gym.tuned.source import Source, resolve_tuned
from zoo.models import Resolved, resolve
from zoo.models.folder import read_config
from zoo.models.forward_settings import forward_settings

if TYPE_CHECKING:
    from zoo.models.hub import Confirm

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Input:
    """A model or fine-tune that is merged.

    Attributes:
        name: what the user wrote.
        tuned: the fine-tune on its base; a whole model is its own.
    """

    name: str
    tuned: Tuned

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole model, which needs no base."""
        return self.tuned.source.artifact == "model"


def find_inputs(
    names: Sequence[str],
    base: str | None,
    *,
    needs_base: bool,
    offline: bool = True,
    confirm: "Confirm | None" = None,
) -> tuple[tuple[Input, ...], Resolved | None]:
    """Returns the sources of a merge, and their base if there is one.

    Args:
        names: runs, deltas, adapters, model folders, or names of models.
        base: the base that the user gives; None is that of the fine-tunes.
        needs_base: whether the method adds changes to it.
        offline: never contact the hub.
        confirm: asks for consent to a download.

    Raises:
        InputError: a source is given twice, their bases differ, or there is none; a base is given
            that nothing uses.
        NotAvailableError: a source or its base is missing.
    """
    sources = [_source(name, offline=offline, confirm=confirm) for name in names]
    _refuse_twice(names, sources)
    parts = [source for source in sources if source.artifact != "model"]
    if base is not None and not parts and not needs_base:
        raise InputError(
            "--base: has no effect: expected a method that adds changes, or a fine-tune on a base",
            code="merge.no_effect",
        )
    recorded = parts or [source for source in sources if source.base is not None]
    bases = [
        resolve_base(base, source.base, "--base", source.check, offline=offline, confirm=confirm)
        for source in (recorded if needs_base or parts else ())
    ]
    if needs_base and not bases and base is not None:
        bases = [resolve(base, offline=offline, confirm=confirm)]
    if needs_base and not bases:
        raise InputError(
            "--base: expected the base that the models were trained from, got none",
            hint="--base zen-nano, or its folder",
            code="merge.no_base",
        )
    _refuse_bases(names, bases)
    common = bases[0] if bases else None
    inputs = (
        Input(name, open_tuned(source, source.path if common is None else common.folder))
        for name, source in zip(names, sources, strict=True)
    )
    return tuple(inputs), common


def _source(name: str, *, offline: bool, confirm: "Confirm | None") -> Source:
    """Returns a fine-tune, or the model of a name."""
    try:
        source = resolve_tuned(name)
    except NotAvailableError as error:
        if error.code not in ("tuned.no_such_source", "jobs.no_such_run"):
            raise
        return Source("model", resolve(name, offline=offline, confirm=confirm).folder)
    if source.artifact == "model" and not source.path.is_dir():
        raise InputError(
            f"{name}: expected a model folder, got a file of weights", code="merge.not_a_folder"
        )
    return source


def _refuse_twice(names: Sequence[str], sources: Sequence[Source]) -> None:
    seen: dict[str, str] = {}
    for name, source in zip(names, sources, strict=True):
        digest = _content(source)
        if digest in seen:
            same = f"{seen[digest]} and {name}" if seen[digest] != name else f"{name} twice"
            raise InputError(
                f"SOURCE: expected different models, got the same weights: {same}",
                hint="--weights counts one more than another",
                code="merge.same_twice",
            )
        seen[digest] = name


def _content(source: Source) -> str:
    """Returns a digest of the weights, so that a copy is recognised."""
    if source.artifact == "delta":
        return source.delta.digest
    if source.artifact == "model":
        return weights_digest(source.path)
    from zoo.core import file_digest

    folder = source.folder
    path = source.path if source.path.is_file() else folder / "adapter_model.safetensors"
    config = (folder / "adapter_config.json").read_text("utf-8")
    scale = {key: json.loads(config).get(key) for key in ("lora_alpha", "r", "use_rslora")}
    return file_digest(path, zero_at=0, zero_len=0) + json.dumps(scale)


def _refuse_bases(names: Sequence[str], bases: Sequence[Resolved]) -> None:
    first = bases[0] if bases else None
    for base in bases[1:]:
        assert first is not None
        if base.folder.resolve() == first.folder.resolve():
            continue
        if weights_digest(base.folder) != weights_digest(first.folder):
            raise InputError(
                f"{', '.join(names)}: expected fine-tunes of one base, got {first.id} and"
                f" {base.id}",
                code="merge.other_base",
            )


def write_input(item: Input, folder: Path) -> None:
    """Writes a source as a model folder in float32; a whole model is linked.

    Raises:
        InputError: it does not belong to the base, or is quantised.
        StorageError: the folder cannot be written.
    """
    tuned = item.tuned
    if item.is_whole:
        float_config(tuned.source.path)
        with storage_errors(folder):
            folder.symlink_to(tuned.source.path.resolve(), target_is_directory=True)
        return
    tuned.warn_of_base()
    weights = tuned.weights
    with storage_errors(folder):
        folder.mkdir()
        config = float_config(tuned.base) | {"dtype": "float32"}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_form(tuned, folder)
    entries = [
        Entry(
            name, "F32" if (dtype := weights.dtype(name)) in FLOATS else dtype, weights.shape(name)
        )
        for name in sorted(own_tensors(weights, tied=is_tied(weights)))
    ]
    arrays = (values for _, values in tuned.merged_tensors())
    write_safetensors(folder / WEIGHTS, entries, {"format": "pt"}, arrays)


def write_form(tuned: Tuned, folder: Path) -> None:
    """Writes how a model is asked: tokenizer and chat template, with those of the fine-tune."""
    whole = tuned.source.artifact == "model"
    base = tuned.source.path if whole else tuned.base
    with storage_errors(folder):
        for file in copied_files(base):
            copy = folder / file.relative_to(base)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
    parts = {} if whole else tuned.record.tokenizer or own_parts(base, tuned.source.folder)
    write_own(folder, {TOKENIZER_KEY: parts} if parts else {})
    keep_joint(folder, tuned.record.stored)


def refuse_unequal(inputs: Sequence[Input], folders: Sequence[Path]) -> list[str]:
    """Refuses models that cannot be merged weight by weight, and returns notes for the user.

    Args:
        inputs: the sources.
        folders: those of `write_input`, the base after them if it is used.

    Raises:
        InputError: tensors, shapes, settings or tokenizers differ.
    """
    names = [item.name for item in inputs] + ["the base"] * (len(folders) - len(inputs))
    first, notes = folders[0], list[str]()
    shapes, settings, form = shapes_of(first), _settings(first), form_digests(first)
    for name, folder in zip(names[1:], folders[1:], strict=True):
        pair = f"{names[0]} and {name}"
        if difference := _difference(settings, _settings(folder)):
            raise InputError(
                f"{pair}: expected models that compute alike, got {difference}",
                code="merge.other_settings",
            )
        if difference := _difference(shapes, shapes_of(folder)):
            raise InputError(
                f"{pair}: expected tensors of equal shapes, got {difference}",
                code="merge.other_shapes",
            )
        other = form_digests(folder)
        if other["tokens"] != form["tokens"]:
            raise InputError(
                f"{pair}: expected one tokenizer, got two: a token would mean two things",
                code="merge.other_tokenizer",
            )
        if other["template"] != form["template"]:
            notes.append(f"{pair} have different {FORM_PARTS['template']}s: the first is kept")
    return notes


def shapes_of(folder: Path) -> dict[str, object]:
    """Returns the shapes of a model's own tensors by name."""
    weights = open_weights(folder)
    return {name: weights.shape(name) for name in own_tensors(weights, tied=is_tied(weights))}


def _settings(folder: Path) -> dict[str, object]:
    return forward_settings(read_config(folder))


def _difference(first: dict[str, object], other: dict[str, object]) -> str | None:
    for name in sorted(first.keys() | other.keys()):
        if first.get(name) != other.get(name):
            return f"{name} {first.get(name, 'absent')} and {other.get(name, 'absent')}"
    return None
