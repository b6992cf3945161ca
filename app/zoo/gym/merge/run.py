"""Merges models by mergekit, offline, into a new folder, and looks at the result.

Sources become model folders beside the result; everything is renamed at the end, so that a killed
merge leaves nothing under the final name. A result that equals a source or the base is refused.
"""

import contextlib
import io
import json
import logging
import shutil
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import yaml

from zoo.backends.machine.installing import install_command
from zoo.gym.delta.codecs.floats import from_bf16, to_bf16
from zoo.gym.delta.origin.usage import licence_head, licence_line
from zoo.gym.delta.reading.weights import (
    float_config,
    is_tied,
    open_weights,
    own_tensors,
    read_array,
)
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.files import new_folder, private_path, storage_errors
from zoo.gym.merge.inputs import Input, refuse_unequal, shapes_of, write_form, write_input
from zoo.gym.merge.methods import Settings
from zoo.gym.offline import offline
from zoo.gym.paths import make_folder
from zoo.models import Resolved, resolve
from zoo.models.checkpoint_files import EXPLICIT_KEY
from zoo.models.hub import check_disk

if TYPE_CHECKING:
    from numpy.typing import NDArray

OutType: TypeAlias = Literal["f32", "bf16"]
DTYPES: dict[OutType, str] = {"f32": "float32", "bf16": "bfloat16"}
SHARD_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Merged:
    """A merged model.

    Attributes:
        folder: the model folder.
        distances: how far it is from each source and the base: |result - source| / |source|, the
            Euclidean norms over all weights.
        notes: what the user should know.
    """

    folder: Path
    distances: dict[str, float]
    notes: tuple[str, ...]


def require_mergekit() -> None:
    """Checks that mergekit is installed.

    Raises:
        NotAvailableError: it is not.
    """
    if find_spec("mergekit") is None:
        raise NotAvailableError(
            "merging needs the package mergekit, which is not installed",
            hint=install_command("merge"),
            code="merge.missing_package",
        )


@contextmanager
def written_inputs(inputs: Sequence[Input], beside: Path) -> Generator[list[Path]]:
    """Yields the folder of each source, in a private folder that is deleted afterwards.

    Raises:
        DoesNotFitError: the disk is too small for them.
        InputError: see `write_input`.
    """
    scratch = private_path(beside.parent / "sources")
    parts = [item for item in inputs if not item.is_whole]
    weights = sum(map(float32_bytes, parts)) + float32_bytes(inputs[0])  # and the result
    check_disk(beside.parent, weights, "free some space, or choose a folder on a larger disk")
    with storage_errors(scratch):
        make_folder(scratch)
    try:
        folders = [scratch / str(number) for number in range(len(inputs))]
        for item, folder in zip(inputs, folders, strict=True):
            write_input(item, folder)
        yield folders
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def merge_models(
    inputs: Sequence[Input],
    base: Resolved | None,
    settings: Settings,
    out: Path,
    dtype: OutType = "f32",
    measured: Mapping[str, float] = MappingProxyType({}),
) -> Merged:
    """Writes the merge of several models as a model folder.

    Args:
        inputs: see `find_inputs`.
        base: the base, where the method or a source needs it.
        settings: the method and its values.
        out: a folder that does not exist yet, or is empty.
        dtype: the type of the written weights; sums are float32.
        measured: figures of the result, for its card.

    Raises:
        NotAvailableError: mergekit is not installed.
        InputError: the models cannot be merged; `out` is not empty.
        GymError: the result equals a source or the base, or is not finite.
        StorageError: the folder cannot be written.
    """
    require_mergekit()
    with new_folder(out) as folder, written_inputs(inputs, out) as folders:
        start = base.folder if base is not None and settings.method.of_changes else None
        compared = [*folders, *([] if start is None else [start])]
        notes = refuse_unequal(inputs, compared)
        compute(settings, folders, start, folder, dtype)
        write_form(inputs[0].tuned, folder)
        _write_config(folders[0], folder, dtype)
        others = dict(zip([item.name for item in inputs], folders, strict=True))
        common = _recorded_base(inputs) if base is None else base.folder
        if common is not None and shapes_of(common) == shapes_of(folder):
            others["the base"] = common
        distances = _distances(folder, others, dtype)
        _write_card(folder, inputs, base, settings, measured)
    return Merged(out, distances, tuple(notes))


def _recorded_base(inputs: Sequence[Input]) -> Path | None:
    """Returns what whole models were trained from, if a record of it and it are here."""
    for item in inputs:
        with contextlib.suppress(InputError, NotAvailableError):
            if (name := item.tuned.source.base) is not None:
                return resolve(name, offline=True).folder
    return None


def compute(
    settings: Settings,
    folders: Sequence[Path],
    base: Path | None,
    out: Path,
    dtype: OutType = "f32",
) -> None:
    """Runs mergekit on model folders; weights and a config are written to `out`.

    Raises:
        InputError: it cannot merge models of this architecture.
    """
    with offline(), _quiet():
        from mergekit.config import MergeConfiguration
        from mergekit.merge import run_merge
        from mergekit.options import MergeOptions

        options = MergeOptions(
            copy_tokenizer=False,
            write_model_card=False,
            quiet=True,
            random_seed=settings.seed,
            out_shard_size=SHARD_BYTES,
        )
        beside = _linked(base, folders[0].parent) if base is not None else None
        try:
            config = MergeConfiguration.model_validate(_plan(settings, folders, beside, dtype))
            with storage_errors(out):
                run_merge(config, str(out), options)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"mergekit cannot merge these models: {str(error).strip() or type(error).__name__}",
                code="merge.failed",
            ) from error


def _linked(base: Path, scratch: Path) -> Path:
    """Returns a link to the base: mergekit reads a `+` in a path as the name of an adapter."""
    link = scratch / "base"
    if not link.is_symlink():
        link.symlink_to(base.resolve(), target_is_directory=True)
    return link


def _plan(
    settings: Settings, folders: Sequence[Path], base: Path | None, dtype: OutType
) -> dict[str, Any]:
    """Returns what mergekit reads from a YAML file."""
    method, names = settings.method, list(map(str, folders))
    plan: dict[str, Any] = {
        "merge_method": method.name,
        "dtype": "float32",
        "out_dtype": DTYPES[dtype],
    }
    if method.name == "slerp":
        first, second = settings.weights
        share = second / (first + second)
        models = [{"model": name} for name in names]
        return plan | {"base_model": names[0], "models": models, "parameters": {"t": share}}
    density = {"density": settings.density} if method.sparse else {}
    weighted = [
        {"model": name, "parameters": {"weight": weight, **density}}
        for name, weight in zip(names, settings.weights, strict=True)
    ]
    return plan | {"models": weighted} | ({} if base is None else {"base_model": str(base)})


@contextmanager
def _quiet() -> Generator[None]:
    """Keeps the notes and warnings of other libraries from the user's screen."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


def _write_config(source: Path, folder: Path, dtype: OutType) -> None:
    """Writes the config of a source in place of mergekit's, and makes its weights readable."""
    config = float_config(source)
    config.pop("torch_dtype", None)
    config.pop(EXPLICIT_KEY, None)
    config["dtype"] = DTYPES[dtype]
    with storage_errors(folder):
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        for file in folder.glob("*.safetensors"):
            file.chmod((folder / "config.json").stat().st_mode)


def _distances(folder: Path, models: dict[str, Path], dtype: OutType) -> dict[str, float]:
    """Returns the relative distance of a result to each model.

    Raises:
        GymError: it equals one in the written type, a tensor is missing, or a weight is not finite.
    """
    import numpy as np

    result = open_weights(folder)
    names = sorted(own_tensors(result, tied=is_tied(result)))
    sums = {name: [0.0, 0.0] for name in models}
    equal = dict.fromkeys(models, True)
    others = {name: open_weights(path) for name, path in models.items()}
    for name, weights in others.items():
        if lost := own_tensors(weights, tied=is_tied(weights)) - set(names):
            raise GymError(
                f"mergekit left out a tensor of {name}: {min(lost)}", code="merge.lost_tensor"
            )
    for tensor in names:
        values = read_array(result, tensor)
        if not np.isfinite(values).all():
            raise GymError(
                f"tensor {tensor!r} of the merge: expected finite weights, got others",
                code="merge.not_finite",
            )
        for name, weights in others.items():
            other = read_array(weights, tensor)
            sums[name][0] += float(((values - other).astype("f8") ** 2).sum())
            sums[name][1] += float((other.astype("f8") ** 2).sum())
            equal[name] = equal[name] and bool((values == _written(other, dtype)).all())
    for name in reversed(models):  # the base, which is last, says most
        if equal[name]:
            raise GymError(
                f"the merge equals {name} in {dtype}: expected another model",
                hint=f"{'' if dtype == 'f32' else '--dtype f32, '}other --weights, or a larger "
                "--density",
                code="merge.equals_source",
            )
    return {name: sqrt(off / total) if total else 0.0 for name, (off, total) in sums.items()}


def _written(values: "NDArray[Any]", dtype: OutType) -> "NDArray[Any]":
    """Returns values as a file of a type has them."""
    is_rounded = dtype == "bf16" and values.dtype == "float32"
    return from_bf16(to_bf16(values)) if is_rounded else values


def float32_bytes(item: Input) -> int:
    """Returns the size of a source's weights in float32, as of their mean."""
    from math import prod

    weights = item.tuned.weights
    return sum(4 * prod(weights.shape(name)) for name in weights.tensors)


def _write_card(
    folder: Path,
    inputs: Sequence[Input],
    base: Resolved | None,
    settings: Settings,
    measured: Mapping[str, float],
) -> None:
    """Writes `README.md`: how it was merged; paths of this machine by their last part."""
    names = [Path(item.name).name for item in inputs]
    named = None if base is None else base.id
    head: dict[str, object] = {"library_name": "transformers", "tags": ["merge", "zoo-gym"]}
    head |= {} if named is None else {"base_model": named, **licence_head(named)}
    how: dict[str, object] = {
        "method": settings.method.name,
        "sources": names,
        "weights": list(settings.weights),
    }
    how |= {"density": settings.density} if settings.method.sparse else {}
    how |= {"seed": settings.seed} if settings.method.random else {}
    line = f"{licence_line(named)}\n" if named else ""
    figures = "\n".join(f"- {name}: {value:.4f}" for name, value in measured.items())
    text = (
        f"---\n{yaml.safe_dump(head, sort_keys=True)}---\n\n# A merge of {', '.join(names)}\n\n"
        f"Merged with zoo-gym by mergekit: {settings.method.says} ({settings.method.source}).\n"
        f"{line}\n```yaml\n{yaml.safe_dump(how, sort_keys=False)}```\n\n"
        f"{figures or 'It was not measured.'}\n"
    )
    with storage_errors(folder):
        (folder / "README.md").write_text(text, encoding="utf-8")
