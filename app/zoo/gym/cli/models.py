"""`zoo-gym models`: lists the models and which are on this machine, and gets others."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Offline, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_model
from zoo.gym.doctor.machine import free_bytes as disk_free
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import human_bytes
from zoo.gym.offline import go_offline
from zoo.gym.paths import given_path
from zoo.models import PICO, Entry, cache_folder, cached_ids, pico_folder, registry, resolve
from zoo.models.folder import model_geometry
from zoo.models.gguf import import_gguf, imported_folder, imported_names

Name = Annotated[str | None, Parameter(name="--name", metavar="NAME")]


def models(*, fits: Switch = False, as_json: Json = False) -> int:
    """Lists the models by name, and which are on this machine.

    Args:
        fits: also show which trainings fit in the free memory, by estimate
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    rows = [_family_row(entry) for entry in registry()]
    ours = {row["id"] for row in rows}
    rows += [
        _other_row(name, imported_folder() / name, "imported")
        for name in imported_names()
        if name not in ours
    ]
    rows += [
        _other_row(model_id, _cache_entry(model_id), "in the cache")
        for model_id in cached_ids()
        if model_id not in ours
    ]
    answer: dict[str, object] = {"models": rows}
    if fits:
        from zoo.gym.engine import open_engine

        engine = open_engine()
        device, free_bytes = engine.name, engine.free_bytes()
        answer |= {"device": device, "free_bytes": free_bytes}
        for row in rows:
            row["fits"] = _fits(row, device, free_bytes)
    for row in rows:
        out.answer(_line(row))
        for job in cast("list[dict[str, Any]]", row.get("fits", [])):
            verdict = "fits" if job["fits"] else "too large"
            out.answer(f"  {job['way']:<20} {human_bytes(job['needs_bytes']):>9} {verdict}")
    out.say("other causal models of the transformers library: give their id 'org/name' or folder")
    out.say("a GGUF file: zoo-gym models import FILE.gguf")
    out.result(answer)
    return 0


def get(
    model: Annotated[str, Parameter(name="MODEL", metavar="NAME")],
    /,
    *,
    dry_run: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Downloads a model unless it is here; asks first, with size, licence and source.

    Args:
        model: a listed name such as smollm2 or zen-nano, or a hub id org/name
        dry_run: show what would be downloaded; of a model that is not listed the hub is asked
        yes: download without a question
        offline: download nothing: fails if the model is not on this machine
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    if dry_run and (planned := _to_download(model, offline=offline)) is not None:
        free = human_bytes(disk_free(cache_folder()) or 0)
        out.answer(f"{planned[0]}: {human_bytes(planned[1])} to download, {free} free")
        out.result({"name": planned[0], "revision": None, "folder": None, "bytes": planned[1]})
        return 0
    resolved = resolve_model(model, yes=yes, offline=offline)
    if resolved.notice:
        out.say(resolved.notice)
    out.answer(f"{resolved.label}: {_size(resolved.folder)} in {resolved.folder}")
    out.result({"name": resolved.id, "revision": resolved.revision, "folder": str(resolved.folder)})
    return 0


def _to_download(name: str, *, offline: bool) -> tuple[str, int] | None:
    """Returns the id and the bytes of a model that would be downloaded; None for one that is here.

    Raises:
        GymError: see `zoo.models.resolve`.
    """
    asked: list[tuple[str, int]] = []

    def refuse(model_id: str, size_bytes: int) -> bool:
        asked.append((model_id, size_bytes))
        return False

    try:
        resolve(name, offline=offline, confirm=refuse)
    except NotAvailableError:
        if not asked:
            raise
    return asked[0] if asked else None


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
        folder, where = pico_folder(), "built in"
    elif entry.hub_id is None:
        folder, where = imported_folder() / entry.alias, "imported"
    else:
        folder, where = _cache_entry(entry.hub_id), "in the cache"
    return _place(entry.alias, folder, where) | {
        "name": entry.alias,
        "id": entry.hub_id or entry.alias,
        "parameters": entry.parameters,
        "licence": entry.licence,
        "download_bytes": entry.download_bytes,
    }


def _other_row(model_id: str, folder: Path, where: str) -> dict[str, object]:
    return _place(model_id, folder, where) | {
        "name": model_id,
        "id": model_id,
        "parameters": None,
        "licence": None,
        "download_bytes": None,
    }


def _place(name: str, folder: Path, where: str) -> dict[str, object]:
    """Returns where a model is, whole or in part."""
    here = _folder_bytes(folder)
    try:
        found = resolve(name, offline=True)
    except (NotAvailableError, InputError):
        where = "partly here" if here else "not here"
        return {"here_bytes": here, "where": where, "folder": None, "revision": None}
    return {
        "here_bytes": here,
        "where": where,
        "folder": str(found.folder),
        "revision": found.revision,
    }


def _fits(row: dict[str, object], device: str, free_bytes: int) -> list[dict[str, object]]:
    """Returns the trainings of a model of known shape, with what they need."""
    from zoo.gym.doctor.capacity import WAYS, jobs_of

    entry = next((entry for entry in registry() if entry.alias == row["name"]), None)
    folder = row["folder"]
    geometry = model_geometry(Path(folder)) if isinstance(folder, str) else None
    if entry is not None:
        geometry = entry.geometry
    if geometry is None:
        return []
    jobs = jobs_of(str(row["name"]), geometry, device, free_bytes)
    return [{**asdict(job), "way": WAYS[job.method].name} for job in jobs]


def _line(row: dict[str, object]) -> str:
    here, download, count = row["here_bytes"], row["download_bytes"], row["parameters"]
    size = f"{count / 1e6:,.1f} M" if isinstance(count, int) else "?"
    if isinstance(here, int) and here:
        part = "part of it, " if row["where"] == "partly here" else ""
        where = f"{part}{human_bytes(here)} on this machine"
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
