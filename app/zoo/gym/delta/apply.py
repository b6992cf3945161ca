"""Rebuilds the fine-tune from the base and a delta, as a model folder that transformers loads.

The base is only read, and weights are never changed in place. The result is float32 by default; in
bfloat16 rounding destroys part of a small delta, and the lost share is measured and reported.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from zoo.gym.arguments import (
    StrPath,
    instance_of,
    model_folder,
    number_of,
    path_of,
    text_of,
    whole_of,
)
from zoo.gym.data.own_tokenizer import write_own
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.file.writer import ITEM_BYTES, Entry, write_safetensors
from zoo.gym.delta.origin.card import write_rebuilt_card
from zoo.gym.delta.origin.digests import warn_of_other_form
from zoo.gym.delta.origin.record import keep_joint
from zoo.gym.delta.progress import Watch, ignore, passing
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import Weights, float_config, is_tied, open_weights, own_tensors
from zoo.gym.delta.rebuild import NAMES, Interpolation, OutType, Rebuild
from zoo.gym.errors import InputError
from zoo.gym.files import new_folder, storage_errors
from zoo.models import Resolved
from zoo.models.adapters import CONFIG_FILE
from zoo.models.checkpoint_files import EXPLICIT_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARD_BYTES = 2_000_000_000
_COPIED = {".json", ".txt", ".model", ".jinja", ".py", ".tiktoken"}
_NOT_COPIED = {"config.json", "training_log.json", CONFIG_FILE}  # rewritten, or not this model's
_LEGAL = ("LICENSE", "NOTICE", "USE_POLICY")


class Written(Protocol):
    """A model that is written: the names of its tensors are those of a base."""

    @property
    def base(self) -> Weights:
        """The weights that have all of its tensors."""
        ...

    def entry(self, name: str) -> Entry:
        """Returns the entry of a tensor in the new folder."""
        ...

    def pieces(self, name: str) -> "Iterator[NDArray[Any]]":
        """Yields a tensor in the type of its entry, in parts."""
        ...


@dataclass(frozen=True)
class AppliedReport:
    """What `apply_delta` wrote.

    Attributes:
        folder: a model folder.
        rounding_loss: None for float32. For bfloat16 |b - d| / |d| over all changed weights
            (Euclidean norms), where d is the delta and b = bf16(base + d) - bf16(base) is what
            the rounded model keeps: 0 if all is kept, 1 if the error is as large as d.
        other_base: how the base differs from the recorded one, if `force` overrode that.
    """

    folder: Path
    rounding_loss: float | None
    other_base: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the report as the command prints it."""
        return {
            "folder": str(self.folder),
            "model": str(self.folder),
            "rounding_loss": self.rounding_loss,
            "other_base": self.other_base,
        }


def apply_delta(
    path: StrPath,
    *,
    base: StrPath,
    out: StrPath,
    dtype: OutType = "f32",
    base_id: str | None = None,
    scaled: float = 1.0,
    shard_bytes: int = SHARD_BYTES,
    force: bool = False,
    watch: Watch = ignore,
) -> AppliedReport:
    """Writes base plus delta as a model folder, with the base's config and tokenizer files.

    Args:
        path: the delta file.
        base: the model folder that the delta was made from; it is only read.
        out: a folder that does not exist yet, or is empty.
        dtype: the type of the written weights; `bf16` rounds to nearest even.
        base_id: the name of the base in error messages; by default its folder's name.
        scaled: the factor for the delta; 1 rebuilds the fine-tune.
        shard_bytes: the bytes of weights per file.
        force: accept a base whose config, or whose tensors that the delta does not change, are not
            those of the recorded one; the report says how it differs.
        watch: called with the progress after each tensor.

    Raises:
        NotAvailableError: the delta or the base is missing.
        InputError: an argument has the wrong type; the delta is damaged or belongs to
            another base; `out` is not empty.
        StorageError: the folder cannot be written.

    Warns:
        GymWarning: the base has another tokenizer or chat template than in training.
    """
    path, out = path_of("path", path), path_of("out", out)
    base_id = None if base_id is None else text_of("base_id", base_id)
    scaled, shard_bytes = number_of("scaled", scaled), whole_of("shard_bytes", shard_bytes)
    force = instance_of("force", force, bool)
    if text_of("dtype", dtype) not in NAMES:
        raise InputError(f"dtype: expected 'f32' or 'bf16', got {dtype!r}", code="delta.bad_dtype")
    base = model_folder("base", base)
    delta, weights = load_delta(path), open_weights(base)
    other_base = verify_base(delta, weights, base_id, force=force)
    warn_of_other_form(delta.header.recipe, base)
    config = new_config(base, dtype)
    rebuild = Rebuild(delta, weights, dtype, scaled)
    with new_folder(out) as folder:
        copy_files(base, folder)
        with storage_errors(out):
            (folder / "config.json").write_text(config, encoding="utf-8")
            keep_joint(folder, delta.header.recipe)
            write_own(folder, delta.header.recipe)
            stated = delta.header.base
            named = Resolved(stated.id, stated.id, stated.revision, base)
            write_rebuilt_card(folder, named, delta.header.recipe)
        write_shards(folder, rebuild, shards_of(rebuild, shard_bytes), watch)
    return AppliedReport(out, rebuild.rounding_loss(), other_base)


def write_weights(base: Path, folder: Path, weights: Interpolation) -> None:
    """Writes a folder to load once: weights in float32 and the base's config, without a card.

    Raises:
        StorageError: the folder cannot be written.
    """
    with storage_errors(folder):
        folder.mkdir()
        (folder / "config.json").write_text(new_config(base, "f32"), encoding="utf-8")
    write_shards(folder, weights, shards_of(weights, SHARD_BYTES), ignore)


def new_config(base: Path, dtype: OutType | Literal["f16"]) -> str:
    """Returns the config of weights that are written in a type.

    Raises:
        InputError: the base is quantised.
    """
    config = float_config(base)
    config.pop("torch_dtype", None)
    config.pop(EXPLICIT_KEY, None)  # the new weight files have the usual names
    config["dtype"] = "float16" if dtype == "f16" else NAMES[dtype][1]
    return json.dumps(config, indent=2) + "\n"


def copied_files(base: Path) -> Iterator[Path]:
    """Yields the files of a base that `apply_delta` copies: tokenizer, chat templates, licence."""
    for file in sorted(base.iterdir()):
        is_copied = file.suffix in _COPIED or file.name.startswith(_LEGAL)
        index = file.name.endswith(".index.json")
        if file.is_file() and is_copied and not index and file.name not in _NOT_COPIED:
            yield file
    templates = base / "additional_chat_templates"
    yield from (file for file in sorted(templates.rglob("*")) if file.is_file())


def copy_files(base: Path, folder: Path) -> None:
    """Copies the files of `copied_files`.

    Raises:
        StorageError: the folder cannot be written.
    """
    for file in copied_files(base):
        copy = folder / file.relative_to(base)
        with storage_errors(folder):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def shards_of(rebuild: Written, shard_bytes: int) -> list[list[Entry]]:
    """Divides the tensors of a model into files of at most so many bytes, or of one tensor."""
    names = own_tensors(rebuild.base, tied=is_tied(rebuild.base))
    shards: list[list[Entry]] = [[]]
    filled = 0
    for entry in (rebuild.entry(name) for name in sorted(names)):
        if shards[-1] and filled + entry.nbytes > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(entry)
        filled += entry.nbytes
    for shard in shards:
        shard.sort(key=lambda entry: -ITEM_BYTES[entry.dtype])  # keeps every tensor aligned
    return shards


def write_shards(folder: Path, rebuild: Written, shards: list[list[Entry]], watch: Watch) -> None:
    """Writes the files of `shards_of`, and their index if there are several.

    Raises:
        InputError: a value is not finite.
        StorageError: the folder cannot be written.
    """
    places: dict[str, str] = {}
    sizes = {entry.name: entry.nbytes for shard in shards for entry in shard}
    names = passing(sizes, watch)
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        name = "model.safetensors" if len(shards) == 1 else name
        write_safetensors(folder / name, shard, {"format": "pt"}, _arrays(rebuild, shard, names))
        places |= {entry.name: name for entry in shard}
    next(names, None)  # reports the last tensor as done
    if len(shards) > 1:
        total = sum(entry.nbytes for shard in shards for entry in shard)
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        with storage_errors(folder):
            text = json.dumps(index, indent=2) + "\n"
            (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def _arrays(rebuild: Written, shard: list[Entry], names: Iterator[str]) -> "Iterator[NDArray[Any]]":
    for _ in shard:
        yield from rebuild.pieces(next(names))
