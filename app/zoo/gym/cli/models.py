"""`zoo-gym models`: lists the models and which are on this machine, and gets others."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Offline, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_model
from zoo.gym.humanize import human_bytes
from zoo.gym.paths import given_path
from zoo.models import PICO, Entry, cache_folder, cached_ids, pico_folder, registry
from zoo.models.gguf import import_gguf, imported_folder, imported_names
from zoo.models.offline import go_offline

Name = Annotated[str | None, Parameter(name="--name", metavar="NAME")]


def models(*, as_json: Json = False) -> int:
    """Lists the models by name, and which are on this machine.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    rows = [_family_row(entry) for entry in registry()]
    ours = {row["id"] for row in rows}
    rows += [
        _other_row(name, imported_folder() / name) for name in imported_names() if name not in ours
    ]
    rows += [
        _other_row(model_id, _cache_entry(model_id))
        for model_id in cached_ids()
        if model_id not in ours
    ]
    for row in rows:
        out.answer(_line(row))
    out.say("other causal models of the transformers library: give their id 'org/name' or folder")
    out.say("a GGUF file: zoo-gym models import FILE.gguf")
    out.result({"models": rows})
    return 0


def get(
    model: Annotated[str, Parameter(name="MODEL", metavar="NAME")],
    /,
    *,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Downloads a model unless it is here; asks first, with size, licence and source.

    Args:
        model: a listed name such as smollm2 or zen-nano, or a hub id org/name
        yes: download without a question
        offline: download nothing: fails if the model is not on this machine
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    resolved = resolve_model(model, yes=yes, offline=offline)
    if resolved.notice:
        out.say(resolved.notice)
    out.answer(f"{resolved.id}: {_size(resolved.folder)} in {resolved.folder}")
    out.result({"name": resolved.id, "revision": resolved.revision, "folder": str(resolved.folder)})
    return 0


def import_model(
    file: Annotated[str, Parameter(name="FILE")],
    /,
    *,
    name: Name = None,
    as_json: Json = False,
) -> int:
    """Makes a GGUF file a base model under a name; weights in codes are widened to bfloat16.

    Args:
        file: the file, or any part of a split one
        name: what to call the model; by default the name in the file
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    go_offline()
    result = import_gguf(given_path(file), name)
    for notice in result.notices:
        out.say(notice)
    if not result.is_new:
        out.say(f"the same file was imported before as '{result.name}'")
    out.answer(f"{result.name}: {_size(result.folder)} in {result.folder}")
    out.say(f"use it: zoo-gym chat --model {result.name}")
    out.result(
        {"name": result.name, "folder": str(result.folder), "imported": result.is_new}
        | {"notices": list(result.notices)}
    )
    return 0


def _size(folder: Path) -> str:
    """Returns the size of a model folder, whose files may be links to the cache's blobs."""
    return human_bytes(sum(path.stat().st_size for path in folder.iterdir() if path.is_file()))


def _family_row(entry: Entry) -> dict[str, object]:
    if entry.alias == PICO:
        folder = pico_folder()
    elif entry.hub_id is None:
        folder = imported_folder() / entry.alias
    else:
        folder = _cache_entry(entry.hub_id)
    here = _folder_bytes(folder)
    return {
        "name": entry.alias,
        "id": entry.hub_id or entry.alias,
        "parameters": entry.parameters,
        "licence": entry.licence,
        "here_bytes": here,
        "download_bytes": entry.download_bytes,
    }


def _other_row(model_id: str, folder: Path) -> dict[str, object]:
    return {
        "name": model_id,
        "id": model_id,
        "parameters": None,
        "licence": None,
        "here_bytes": _folder_bytes(folder),
        "download_bytes": None,
    }


def _line(row: dict[str, object]) -> str:
    here, download, count = row["here_bytes"], row["download_bytes"], row["parameters"]
    size = f"{count / 1e6:,.1f} M" if isinstance(count, int) else "?"
    if isinstance(here, int) and here:
        where = f"{human_bytes(here)} on this machine"
    else:
        where = f"not here, download {human_bytes(download) if isinstance(download, int) else '?'}"
    return f"{row['name']:<14} {size:>10}  {row['licence'] or '':<12} {where:<36} {row['id']}"


def _cache_entry(model_id: str) -> Path:
    return cache_folder() / ("models--" + model_id.replace("/", "--"))


def _folder_bytes(folder: Path) -> int:
    """Returns the total size of a folder, counting each file once: the cache links to its blobs."""
    if not folder.is_dir():
        return 0
    return sum(path.stat().st_size for path in folder.rglob("*") if _is_own_file(path))


def _is_own_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
