"""`zoo-gym models`: lists the models and which are on this machine."""

from pathlib import Path

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.humanize import human_bytes
from zoo.models import PICO, Entry, cache_folder, cached_ids, pico_folder, registry


def models(*, as_json: Json = False) -> int:
    """Lists the models by name, and which are on this machine.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    rows = [_family_row(entry) for entry in registry()]
    ours = {row["id"] for row in rows}
    rows += [_other_row(model_id) for model_id in cached_ids() if model_id not in ours]
    for row in rows:
        out.answer(_line(row))
    out.say("other causal models of the transformers library: give their id 'org/name' or folder")
    out.result({"models": rows})
    return 0


def _family_row(entry: Entry) -> dict[str, object]:
    folder = pico_folder() if entry.alias == PICO else _cache_entry(entry.hub_id or "")
    here = _folder_bytes(folder)
    return {
        "name": entry.alias,
        "id": entry.hub_id or entry.alias,
        "parameters": entry.parameters,
        "licence": entry.licence,
        "here_bytes": here,
        "download_bytes": entry.download_bytes,
    }


def _other_row(model_id: str) -> dict[str, object]:
    return {
        "name": model_id,
        "id": model_id,
        "parameters": None,
        "licence": None,
        "here_bytes": _folder_bytes(_cache_entry(model_id)),
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
