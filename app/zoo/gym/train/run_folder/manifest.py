"""Lists a folder's files with sizes and digests, and checks a folder against the list.

`manifest.json` holds `{"v": 1, "step": n, "files": {name: {"bytes": n, "sha256": hex}}}`; names
are relative, with forward slashes. The digests are what `sha256sum` prints.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

MANIFEST = "manifest.json"
VERSION = 1


def write_manifest(folder: Path, step: int) -> None:
    """Writes the manifest of every file that is in `folder` now.

    Raises:
        OSError: a file cannot be read, or the manifest cannot be written.
    """
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _digest(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    content = json.dumps({"v": VERSION, "step": step, "files": files}, indent=2)
    (folder / MANIFEST).write_text(content + "\n", encoding="utf-8", newline="\n")


def manifest_fault(folder: Path, step: int) -> str | None:
    """Returns what is wrong with a folder, or None if every listed file is unchanged."""
    try:
        value: object = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "no manifest"
    except (ValueError, RecursionError):
        return "an unreadable manifest"
    manifest = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    files = manifest.get("files")
    if not isinstance(files, dict) or (manifest.get("v"), manifest.get("step")) != (VERSION, step):
        return f"a manifest that is not of version {VERSION} and step {step}"
    faults = (_file_fault(folder, name, entry) for name, entry in files.items())
    return next((fault for fault in faults if fault is not None), None)


def _file_fault(folder: Path, name: str, entry: object) -> str | None:
    path = folder / name
    if not isinstance(entry, dict):
        return f"an unreadable entry for '{name}'"
    if not path.is_file():
        return f"no file '{name}'"
    if path.stat().st_size != entry.get("bytes"):
        return f"file '{name}' with another size"
    return None if _digest(path) == entry.get("sha256") else f"file '{name}' with other bytes"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
