"""What zoo-gym wrote on this machine, with sizes, and its deletion: `zoo-gym clean`.

Only names that the program writes are listed: with `ZOO_GYM_HOME` its folders may hold files of
others, which stay. Models are in a cache that other programs share: one is deleted by name alone.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.jobs import run_folders
from zoo.gym.jobs.remove import remove_path, size_bytes
from zoo.gym.jobs.state import has_worker, read_status
from zoo.gym.paths import folders
from zoo.models import cache_folder, cached_ids
from zoo.models.names import parse_name

WRITTEN: dict[str, dict[str, tuple[str, ...]]] = {
    "data": {
        "runs": ("runs", "index.db*", "devices", "studies"),
        "deltas and variants": ("deltas", "variants", "variants.db*", "bases"),
        "models made here": ("models",),
        "rounds": ("rounds",),
        "lessons": ("experience", "measuring"),
        "evaluations": ("evals", "votes.json", "demo"),
        "your key": ("keys",),
        "servers": ("serve", "serve.*", ".serve.*", "webui.*"),
    },
    "config": {
        "settings": ("providers.yaml", "hosts.txt", "keys.json"),
        "keys and tokens": ("trusted-keys.yaml", "round-tokens.json"),
    },
    "cache": {"cache": ("*.json", "writing", "soup-*", "tmp*")},
    "log": {"log": ("crash.txt",)},
}
"""Folder -> part -> the names that the program writes there, as patterns."""

MODEL = "model"
"""The part of a model in the shared cache."""


@dataclass(frozen=True)
class Written:
    """A file or folder that can be deleted, with the part it is of."""

    part: str
    path: Path
    size_bytes: int


def written() -> list[Written]:
    """Returns all that zoo-gym wrote in its folders."""
    return [
        Written(part, path, size_bytes(path))
        for folder, parts in WRITTEN.items()
        for path in _entries(getattr(folders(), folder))
        for part, patterns in parts.items()
        if any(fnmatch(path.name, pattern) for pattern in patterns)
    ]


def foreign_files() -> list[Path]:
    """Returns what else is in the folders of zoo-gym, which is not its own."""
    ours = {each.path for each in written()}
    return [
        path
        for folder in WRITTEN
        for path in _entries(getattr(folders(), folder))
        if path not in ours
    ]


def cached_models() -> list[Written]:
    """Returns the models in the shared cache, whichever program downloaded them."""
    return [cached_model(model_id) for model_id in cached_ids()]


def cached_model(name: str) -> Written:
    """Returns a model of the shared cache.

    Raises:
        NotAvailableError: it is not there.
    """
    model_id = parse_name(name, cached_ids()).id
    path = cache_folder() / ("models--" + model_id.replace("/", "--"))
    if "/" not in model_id or not path.is_dir():
        raise NotAvailableError(
            f"--model: expected a model in the cache, got '{name}'",
            hint="zoo-gym models lists those that are here",
            code="doctor.not_cached",
        )
    return Written(MODEL, path, size_bytes(path))


def refuse_live() -> None:
    """Refuses to delete while a run has a process.

    Raises:
        InputError: one has.
    """
    # not from the index of runs, which would be written
    live = [run.id for run in run_folders() if has_worker(run) or read_status(run).live]
    if live:
        raise InputError(
            f"cannot clean: expected no run with a process, got {', '.join(live)}",
            hint=f"stop it first: zoo-gym runs stop {live[0]}",
            code="doctor.live_run",
        )


def delete(files: list[Written]) -> None:
    """Deletes what is listed, and the folders of zoo-gym that are empty then.

    Raises:
        StorageError: one cannot be deleted.
    """
    for file in files:
        remove_path(file.path)
    for name in WRITTEN:
        with suppress(OSError):  # it is not there, or holds files of others
            getattr(folders(), name).rmdir()


def _entries(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.iterdir())) if folder.is_dir() else iter(())
