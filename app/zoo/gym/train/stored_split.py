"""The split of a run, stored beside its settings: what is measured later was never learned.

`split.json` holds the places of the held-out rows and the fingerprint of the data they are places
in. Runs from before it existed held out their last rows; for them that is what is found.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.train import TrainConfig
from zoo.gym.data import Record, Split, split_at_end, split_records
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside

SPLIT_FILE = "split.json"
VERSION = 1


def run_split(folder: Path, config: TrainConfig, records: Sequence[Record], data: str) -> Split:
    """Returns the run's split: the stored one, else one chosen and stored now.

    Args:
        folder: the run folder.
        config: its settings.
        records: all usable rows.
        data: their fingerprint.

    Raises:
        InputError: the stored one is damaged or belongs to other data.
    """
    found = stored_split(folder)
    if found is None:
        old = (folder / "checkpoints").exists()
        split = (
            split_at_end(records, config.val_size)
            if old
            else split_records(records, config.val_size, config.seed)
        )
        content = {"v": VERSION, "data": data, "split": asdict(split)}
        write_beside(folder / SPLIT_FILE, json.dumps(content) + "\n")
        return split
    if found[0] != data:
        raise InputError(f"{folder / SPLIT_FILE}: it belongs to other data than the run has now")
    return found[1]


def stored_split(folder: Path) -> tuple[str, Split] | None:
    """Returns the fingerprint and the split that a run has stored, or None where it has not.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / SPLIT_FILE
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    content = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    split, data = content.get("split"), content.get("data")
    if content.get("v") != VERSION or not isinstance(split, dict) or not isinstance(data, str):
        raise _damaged(path)
    fields = cast("dict[str, Any]", split)
    rows, held_out, cut = fields.get("rows"), fields.get("held_out"), fields.get("cut")
    if not isinstance(rows, int) or not isinstance(held_out, list):
        raise _damaged(path)
    places = cast("list[object]", held_out)
    if not all(isinstance(place, int) and 0 <= place < rows for place in places):
        raise _damaged(path)
    duplicates = fields.get("duplicates")
    return data, Split(
        rows,
        tuple(sorted({place for place in places if isinstance(place, int)})),
        cut if isinstance(cut, int) else None,
        duplicates if isinstance(duplicates, int) else 0,
    )


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path}: expected the rows held out by a run, got a damaged file",
        hint="delta create --data FILE measures on rows that the run has not seen",
    )
